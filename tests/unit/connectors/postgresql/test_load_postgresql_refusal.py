"""From a refused line of COPY to the row's key, and pieces of a table for verification; no server."""

from __future__ import annotations

import pickle
import subprocess
import sys

from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.copy_chunk import _key_text, _line
from anabranch.connectors.postgresql.target.verify import page_ranges
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

TEXT = LogicalType(Kind.TEXT)
TABLE = TargetTable(TableId("a", "b"), TableId("a", "b"), ("x", "y", "z"), (TEXT, TEXT, TEXT), ("z", "x"))


def test_the_line_is_found_over_blocks() -> None:
    blocks = [b"1\n2\n", b"3\n", b"4\n5\n6\n"]
    assert [_line(blocks, n) for n in range(1, 8)] == [b"1", b"2", b"3", b"4", b"5", b"6", b""]


def test_the_key_is_read_from_the_line() -> None:
    assert _key_text(TABLE, b"a\\tb\\\\n\tsecret\t7") == "key z=7, x=a\tb\\n"
    assert _key_text(TABLE, b"") == "the row has no key"


def test_pieces_cover_all_pages_once() -> None:
    assert page_ranges(0, 0, 1000) == ["true"]
    assert page_ranges(100, 500, 1000) == ["true"]
    assert page_ranges(100, 3000, 1000) == [
        "ctid >= '(0,0)' AND ctid < '(33,0)'",
        "ctid >= '(33,0)' AND ctid < '(66,0)'",
        "ctid >= '(66,0)'",
    ]
    assert len(page_ranges(2, 5000, 1000)) == 2


def test_a_target_pickles_and_hides_its_password() -> None:
    made = target(Endpoint("postgresql", "h", 5432, "u", "secret", "d"))
    assert pickle.loads(pickle.dumps(made)) == made
    assert "secret" not in repr(made)


def test_the_module_imports_without_the_driver() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; import anabranch.connectors.postgresql.target as p\n"
        "try: p.connector(None)\nexcept ModuleNotFoundError as e: print(e.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "psycopg"
