"""`anabranch schema ls|show|diff` on a history that was written here, without source and target."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from anabranch.cli.main import main
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column, Index
from anabranch.model.schema_changes import changes
from anabranch.trail.writer import TrailWriter
from anabranch.view.schema_history import TableVersion, renamed_between
from rigs import trail_source

ADD = "ALTER TABLE orders ADD n INT DEFAULT 5"
N = Column("n", LogicalType(Kind.INT32), "int", has_default=True, default="5")
FIRST = trail_source.definition()
SECOND = replace(FIRST.with_version(2), columns=(*FIRST.columns, N))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    with TrailWriter.open(home / "shop" / "trail", **trail_source.JOB, pack=False) as writer:
        for table in (FIRST, trail_source.definition(trail_source.NOTES)):
            writer.schema(table)
        writer.append(trail_source.chunk(1, 2))
        writer.alter(SECOND, ADD)
        writer.append(trail_source.chunk(3, 3))
        writer.park(trail_source.NOTES, "dropped at the source", "DROP TABLE notes")
        writer.append(trail_source.chunk(4, 4))
        writer.flush()
    (home / "job.toml").write_text(
        'name = "shop"\n[source]\nurl = "mysql://u:p@h"\n[target]\nurl = "postgresql://u:p@h/d"\n'
        '[[rules]]\ninclude = ["shop.*"]\n'
    )
    return home / "job.toml"


Call = Callable[..., tuple[Any, str]]


@pytest.fixture
def call(job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    monkeypatch.setenv("ANABRANCH_HOME", str(job.parent))

    def run(verb: str, *arguments: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as end:
            main(["schema", verb, str(job), *arguments])
        found = capsys.readouterr()
        return end.value.code, found.out + found.err

    yield run
    structlog.reset_defaults()


def test_versions_are_listed_with_what_made_them(call: Call) -> None:
    code, text = call("ls")
    assert (
        code == 0 and f"altered: {ADD}" in text and "parked behind it: dropped at the source: DROP TABLE notes" in text
    )
    found = json.loads(call("ls", "--json")[1])["definitions"]
    told = [(one["table"], one["table_version"], one["from_sequence"], one["came"]) for one in found]
    orders, notes = str(trail_source.ORDERS), str(trail_source.NOTES)
    assert told == sorted([(orders, 1, 1, "first seen"), (orders, 2, 3, "altered"), (notes, 1, 1, "first seen")])
    assert next(one for one in found if one["table_version"] == 2)["position"].startswith("3@")
    assert len(json.loads(call("ls", "--table", notes, "--json")[1])["definitions"]) == 1


def test_a_version_is_shown_and_compared(call: Call) -> None:
    orders = str(trail_source.ORDERS)
    code, text = call("show", orders)
    assert code == 0 and f"{orders} version 2, from 3 on" in text and "int NULL DEFAULT '5'" in text
    assert "int NULL DEFAULT" not in call("show", orders, "--version", "1")[1]
    for arguments in ((), ("1",), ("1", "2")):
        assert "  + column n: int NULL DEFAULT '5'" in call("diff", orders, *arguments)[1]
    assert "  - column n: int NULL" in call("diff", orders, "2", "1")[1]
    assert "no difference" in call("diff", orders, "2", "2")[1]
    (told,) = json.loads(call("diff", orders, "--json")[1])["differences"]
    assert told["changes"] == [{"what": "column", "name": "n", "before": "", "after": "int NULL DEFAULT '5'"}]
    assert "has one version" in call("diff", str(trail_source.NOTES))[1]


def test_what_is_not_there_is_said(call: Call) -> None:
    code, text = call("show", "shop.nowhere")
    assert code != 0 and "no definition of this table" in text and "Traceback" not in text
    for verb in ("show", "diff"):
        code, text = call(verb, "nowhere")
        assert code == 2 and "expected schema.table" in text and "Traceback" not in text
    code, text = call("show", str(trail_source.ORDERS), "--version", "9")
    assert code == 2 and "has no version 9; it has 1, 2" in text


def test_every_part_of_a_definition_is_compared() -> None:
    index = Index("by_n", ("n",), unique=True)
    now = replace(SECOND, columns=(N, *FIRST.columns[1:]), primary_key=("n",), indexes=(index,), comment="new")
    found = {(one.what, one.name): one.sign for one in changes(SECOND, now)}
    assert found[("column", FIRST.columns[0].name)] == "-" and found[("primary key", "")] == "~"
    assert found[("index", "by_n")] == "+" and found[("comment", "")] == "+" and found[("order of columns", "")] == "~"
    assert changes(now, now) == []


def test_columns_that_are_renamed_are_one_over_all_versions() -> None:
    """One that was dropped meanwhile, and came again by that name, is another one."""

    def version(number: int, *names: str, renamed: tuple[tuple[str, str], ...] = ()) -> TableVersion:
        columns = tuple(replace(N, name=name) for name in names)
        schema = replace(FIRST, columns=columns, primary_key=(), indexes=(), foreign_keys=(), version=number)
        return TableVersion(schema, number, "", "altered", renamed=renamed)

    found = [
        version(1, "a", "x", "y"),
        version(2, "b", "y", "x", renamed=(("a", "b"), ("x", "y"), ("y", "x"))),
        version(3, "c", "y", "x", renamed=(("b", "c"),)),
        version(4, "y", "x"),
        version(5, "c", "y", "x"),
    ]
    assert renamed_between(found, found[0], found[1]) == {"a": "b", "x": "y", "y": "x"}
    assert renamed_between(found, found[0], found[2]) == {"a": "c", "x": "y", "y": "x"}
    assert renamed_between(found, found[2], found[3]) == {}
    assert renamed_between(found, found[0], found[4]) == {"x": "y", "y": "x"}
    (told,) = changes(found[1].schema, found[2].schema, {"b": "c"})
    assert str(told) == "~ column c: b int NULL DEFAULT '5' -> c int NULL DEFAULT '5'"
