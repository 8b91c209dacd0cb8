"""`anabranch ddl ls|show|approve|skip` on targets of the memory twin: what is shown, of one and of several, and what is not
there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from anabranch.cli import main as shell
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target.store import MemoryStore, keep_ddl
from anabranch.model.ddl_changes import PARKS, DdlChange, DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState, ask
from anabranch.trail.writer import TrailWriter
from rigs import trail_source

GOODS, OTHER, TARGETS = TableId("shop", "goods"), TableId("shop", "other"), ("north", "south")
ADD = "ALTER TABLE goods ADD n INT DEFAULT 5"
ADDED = DdlChange(
    *(
        7,
        "7@log.1:5",
        1_700_000_000_000_000,
        GOODS,
        TableId("public", "goods"),
        ADD,
        DdlRule("[ddl] add_column", "apply"),
        Outcome.ALTERED,
    ),
    version=2,
    digest="d1gest",
    by="ann@here",
)
PARKED = DdlChange(
    9, "", 0, OTHER, OTHER, "", PARKS, Outcome.PARKED, "its columns were altered at the source", source_user="root@%"
)
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=[1, 2], ids=["one target", "two targets"])
def names(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """The targets. The first one has both changes, the second one the later of them."""
    found = TARGETS[: request.param]
    for name in found:
        store = MemoryStore(database(name))
        store.prepare()
        for table in (GOODS, OTHER, TableId("shop", "quiet")):
            store.save_table("shop", TableState(table, table, "streaming"), None)
        for change in (ADDED, PARKED) if name == "north" else (PARKED,):
            keep_ddl(database(name).job("shop"), change)
    yield found
    forget()
    structlog.reset_defaults()


@pytest.fixture
def ddl(names: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verb:
    job = tmp_path / "shop.toml"
    targets = "".join(f'[[targets]]\nname = "{name}"\nurl = "memory:///{name}"\n' for name in names)
    one = f'[target]\nurl = "memory:///{names[0]}"\n'
    job.write_text(
        f'name = "shop"\n[source]\nurl = "memory:///no_source"\n{targets if len(names) > 1 else one}'
        '[[rules]]\ninclude = ["shop.*"]\n'
    )

    def call(verb: str, *arguments: str) -> tuple[int, str, str]:
        code = shell.exit_code(["ddl", verb, str(job), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_changes_are_listed_with_what_became_of_them(ddl: Verb, names: tuple[str, ...]) -> None:
    code, text, _ = ddl("ls")
    assert code == 0 and "altered" in text and ADD in text and "its columns were altered at the source" in text
    assert text.count("parked") == len(names) and ("target south" in text) is (len(names) > 1)
    found = json.loads(ddl("ls", "--json")[1])
    parts = found["targets"] if len(names) > 1 else [found]
    assert [len(one["changes"]) for one in parts] == [2, 1][: len(names)]
    first, second = parts[0]["changes"]
    assert (first["outcome"], first["setting"], first["action"]) == ("altered", "[ddl] add_column", "apply")
    assert first["position"] == {"text": "7@log.1:5", "commit_time": "2023-11-14T22:13:20.000000Z"}
    assert (second["source_user"], second["position"]["commit_time"], second["action"]) == ("root@%", None, "park")
    assert "goods" not in ddl("ls", "--table", "shop.other")[1]
    assert "no table was altered" in ddl("ls", "--table", "shop.quiet")[1]


def test_one_is_shown_by_its_number(ddl: Verb, names: tuple[str, ...]) -> None:
    code, text, _ = ddl("show", "2")  # the other target has no such number
    assert code == 0 and "its columns were altered at the source" in text and "altered by  root@%" in text
    code, text, _ = ddl("show", "1", "--target", "north") if len(names) > 1 else ddl("show", "1")
    assert code == 0 and f"statement   {ADD}" in text and "[ddl] add_column = apply" in text
    assert "version 2, digest d1gest" in text and "by ann@here" in text and "the log does not say it" in text
    one = json.loads(
        (ddl("show", "2", "--json", "--target", "north") if len(names) > 1 else ddl("show", "2", "--json"))[1]
    )
    assert (one["number"], one["outcome"], one["statement"], one["table_version"]) == (2, "parked", "", 0)


def test_what_is_not_there_is_said_at_once(ddl: Verb) -> None:
    code, _, said = ddl("show", "9")
    assert code == 2 and "there is no change 9" in said
    code, _, said = ddl("ls", "--table", "shop.nowhere")
    assert code == 2 and "no table shop.nowhere" in said and "Traceback" not in said
    assert ddl("ls", "--table", "nowhere")[0] == 2 and ddl("show", "0")[0] == 2


def test_a_target_that_is_away_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "shop.toml"
    away = "postgresql://u:p@127.0.0.1:1/d"
    job.write_text(
        f'name = "shop"\n[source]\nurl = "memory:///s"\n[target]\nurl = "{away}"\n[[rules]]\ninclude = ["shop.*"]\n'
    )
    for arguments in (("ls",), ("show", "1")):
        code = shell.exit_code(["ddl", arguments[0], str(job), *arguments[1:]])
        said = capsys.readouterr()
        structlog.reset_defaults()
        assert code == 6 and said.out == "" and said.err.count("error: ") == 1


def test_a_decision_is_kept_with_the_table_that_waits(
    ddl: Verb, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the target that is named alone. Who decides again, about another change or in another way is told why not."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    with TrailWriter.open(tmp_path / "shop" / "trail", **trail_source.JOB, pack=False) as writer:
        writer.schema(TableSchema(trail_source.ORDERS, (), ()))
        writer.append(trail_source.chunk(1, 1))
        writer.flush()
    change = replace(ADDED, sequence=1, source=OTHER, target=OTHER, outcome=Outcome.WAITING, why="asked")
    for name in names:
        store = MemoryStore(database(name))
        state = store.states.tables("shop")[OTHER]
        store.save_table("shop", ask(state, "it waits", 1, asked=True), state)
        keep_ddl(database(name).job("shop"), change)
    here = MemoryStore(database("north"))
    (number,) = (one.number for one in here.ddl_changes("shop", OTHER) if one.outcome is Outcome.WAITING)
    at = ("--target", "north") if len(names) > 1 else ()
    for verb, which, why in (
        ("approve", 1, "nothing waits in front of change 1, which is altered"),
        ("skip", 99, "no change 99"),
    ):
        code, _, said = ddl(verb, str(which), *at)
        assert code == 2 and why in said
    code, text, _ = ddl("approve", str(number), *at)
    assert code == 0 and text == f"shop.other goes on from change {number}\n"
    decided = here.states.tables("shop")[OTHER]
    assert decided.is_resuming and decided.facts.decided[0] == "apply" and decided.facts.resumes == 0
    code, _, said = ddl("approve", str(number), *at)
    assert code == 2 and "nothing waits" in said
    assert all(MemoryStore(database(name)).states.tables("shop")[OTHER].is_asked for name in names[1:])
