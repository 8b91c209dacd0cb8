"""Zero characters in the rows of a trail's load: kept where the target's text has them, else refused by row, or left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.trail_end import chunk_files, manifests
from anabranch.trail_end.manifests import Manifest, RecordedChunk
from anabranch.trail_end.recorded import RecordedRows

TABLE = TableId("shop", "t")
KEY, WORD = Column("k", LogicalType(Kind.TEXT), "varchar(9)"), Column("w", LogicalType(Kind.TEXT), "text")
COUNT = Column("n", LogicalType(Kind.INT32), "int")
SCHEMA = TableSchema(TABLE, (WORD, COUNT, KEY), ("k",), version=1)
LINES = b"\\N\t1\ta\nx\0y\t2\tb\\tc\n\t3\td\n"
ORDER: Any = SimpleNamespace(mark=lambda text: LogMark(text, text))


@pytest.fixture
def rows(tmp_path: Path) -> RecordedRows:
    folder = f"{manifests.folder(TABLE)}/1"
    (tmp_path / folder).mkdir(parents=True)
    file = chunk_files.write(tmp_path, f"{folder}/000000.arrow", ["w", "n", "k"], [LINES])
    chunk = RecordedChunk(Bounds(), "1", "1", file)
    manifests.save(tmp_path, Manifest(TABLE, 1, 1, ("w", "n", "k"), (chunk,)))
    return RecordedRows(tmp_path, ORDER)


def read(rows: RecordedRows, rules: ValueRules) -> bytes:
    return b"".join(rows.lines(SCHEMA, ["w", "n", "k"], Bounds(), rules))


def test_it_is_kept_where_the_target_s_text_has_it(rows: RecordedRows) -> None:
    assert read(rows, ValueRules(keeps_nul=True)) == LINES


def test_it_is_refused_by_row_where_it_has_not(rows: RecordedRows) -> None:
    with pytest.raises(ValueRefused, match="column w of the row with k=b\tc holds a zero character in text") as refused:
        read(rows, ValueRules())
    assert refused.value.table == "shop.t" and "anabranch load JOB --table shop.t" in refused.value.hint


@pytest.mark.parametrize("keeps", [True, False])
def test_it_is_left_out_where_the_job_says_so(rows: RecordedRows, keeps: bool) -> None:
    assert read(rows, ValueRules(nul="strip", keeps_nul=keeps)) == LINES.replace(b"\0", b"")
