"""Options of a history's targets, arrays read as JSON or as a PostgreSQL prints them, and TRUNCATEs that stand alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.bare import said, with_bare_truncates
from anabranch.testing.torture.choices import SHARE, draw_options
from anabranch.testing.torture.decoded import Reading
from anabranch.testing.torture.deeds import CONFLICT, draw_deed
from anabranch.testing.torture.history import History, Statement, Transaction
from anabranch.testing.torture.mysql_target import CHOICES
from anabranch.testing.torture.mysql_target_values import shown
from anabranch.testing.torture.place import Place
from anabranch.testing.torture.postgresql_values import KINDS
from anabranch.testing.torture.rows import RowChange
from anabranch.testing.torture.tables import Column, ForeignKey, Schema, Table

HERE = Database(Server("mysql", "8.0.33", "127.0.0.1", 1, "root", ""), "")
THERE = Database(Server("postgresql", "18", "127.0.0.1", 2, "a", "b"), "first")


def test_options_are_drawn_for_a_target_that_has_some_and_to_which_nobody_else_writes(tmp_path: Path) -> None:
    drawn = {seed: draw_options(seed, HERE) for seed in range(600)}
    deeds = {seed: draw_deed(seed) for seed in drawn}
    assert not any(drawn[seed] for seed, deed in deeds.items() if deed and deed.kind == CONFLICT)
    assert abs(sum(map(bool, drawn.values())) / 600 - SHARE) < 0.1
    assert {(name, one) for some in drawn.values() for name, one in some.items()} == {
        (name, one) for name, values in CHOICES.items() for one in values
    }
    assert not any(draw_options(seed, THERE) for seed in drawn)
    for seed in [seed for seed, some in drawn.items() if some][:20]:
        for targets, options in (((HERE, None), [drawn[seed]]), ((THERE, HERE), [{}, drawn[seed]])):
            first, second = targets
            place = Place("torture_1", THERE.server, first, tmp_path, second=second, options=options)
            place.write()
            job = load_job(place.job_file, place.environment)
            own = job.target_options("second" if second else "")
            assert {name: getattr(own, name) for name in CHOICES} == dict(drawn[seed])


@pytest.mark.parametrize(
    ("of", "text", "told"),
    [
        ("integer[]", "{}", "[]"),
        ("integer[]", "{1,NULL,3}", "[1, null, 3]"),
        ("integer[]", "{{1,2},{3,4}}", "[[1, 2], [3, 4]]"),
        ("integer[]", "[0:1]={7,8}", '{"[0:1]": [7, 8]}'),
        ("text[]", '{"a b",NULL,"NULL","x\\"y",""}', '["a b", null, "NULL", "x\\"y", ""]'),
    ],
)
def test_an_array_is_read_in_either_form_and_another_one_as_it_is(of: str, text: str, told: str) -> None:
    read = shown(KINDS[f"pg {of}"])
    assert read(text) == read(told) == text
    assert read("[99]") == "[99]" and read("{99}") == "{99}"


NUMBER = Column("id", "pg integer", nullable=False)
PARENT, ALONE = (Table(name, (NUMBER,), ("id",), (("id",),)) for name in ("parent", "alone"))
KEY = ForeignKey("child_f1", ("id",), "parent", ("id",))
CHILD = Table("child", (NUMBER,), ("id",), (("id",),), (KEY,))
HISTORY = History(
    1, Schema((PARENT, CHILD, ALONE)), (Transaction(1, 0, ()),), (Transaction(2, 1, ()),), (Transaction(3, 0, ()),)
)


def test_tables_that_nobody_refers_to_are_emptied_alone() -> None:
    found = [with_bare_truncates(replace(HISTORY, seed=n)) for n in range(200)]
    bare = [[one for one in history.transactions if one.bare] for history in found]
    assert {len(some) for some in bare} == {0, 1, 2, 3}
    assert {one.statements for some in bare for one in some} == {
        (Statement("empty", name),) for name in ("child", "alone")
    }
    assert all(len({one.number for one in history.transactions}) == len(history.transactions) for history in found)
    assert not any(one.is_numbered for some in bare for one in some)
    assert History.from_json(found[-1].to_json()) == found[-1]


def test_a_number_in_the_log_is_of_the_history_that_it_names() -> None:
    def message(history: str, number: str) -> bytes:
        return b"M\x01" + bytes(8) + history.encode() + b"\0" + len(number).to_bytes(4, "big") + number.encode()

    relation = b"R" + (5).to_bytes(4, "big") + b"s\0alone\0d" + bytes(2)
    emptied = b"T" + (1).to_bytes(4, "big") + b"\0" + (5).to_bytes(4, "big")
    log = [b"B", relation, emptied, message("torture_1", "17"), b"C", b"B", message("torture_2", "18"), b"C"]
    assert list(Reading("torture_1").transactions(log)) == [(17, [RowChange("alone")])]
    assert said("torture_1", 17) == "SELECT pg_logical_emit_message(true, 'torture_1', '17')"
