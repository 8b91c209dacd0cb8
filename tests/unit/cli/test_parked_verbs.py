"""`anabranch parked` about rows that are set aside, on a target of the memory twin: what is shown, and what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.cli import main as shell
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import DROPPED
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState
from anabranch.rows.aside import DISCARD, RELEASE, AsideChange

GOODS, OTHER = TableId("shop", "goods"), TableId("shop", "other")
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    made = MemoryStore(database("verbs"))
    made.prepare()
    for table, facts in ((GOODS, Facts(set_aside=24)), (OTHER, Facts())):
        made.save_table("shop", TableState(table, table, "streaming", facts=facts), None)
    yield made
    forget()


def put(number: int, key: dict[str, str | None], discarded: bool = False) -> None:
    change = AsideChange(
        number, f"{number}@log.1:1", 0, GOODS, GOODS, key, "update", {**key, "v": None}, {"v": "5"}, "refused: small",
        is_discarded=discarded, number=number, set_aside_at=1_700_000_000_000_000,
    )  # fmt: skip
    database("verbs").job("shop").aside[number] = change


@pytest.fixture
def parked(
    store: MemoryStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Verb:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    job = tmp_path / "shop.toml"
    job.write_text(
        'name = "shop"\n[source]\nurl = "memory:///no_source"\n[target]\nurl = "memory:///verbs"\n'
        '[[rules]]\ninclude = ["shop.*"]\n'
    )

    def call(verb: str, *arguments: str) -> tuple[int, str, str]:
        code = shell.exit_code(["parked", verb, str(job), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_nothing_is_parked_and_nothing_set_aside(parked: Verb) -> None:
    assert parked("ls")[:2] == (0, "no table is parked\n")
    assert json.loads(parked("ls", "--json")[1]) == {"version": 1, "parked": [], "set_aside": []}
    code, _, said = parked("show", "shop.goods")
    assert code == 2 and "is streaming, not parked" in said
    code, _, said = parked("release", "shop.goods", "--all")
    assert code == 2 and "no row of shop.goods is set aside" in said


@pytest.mark.parametrize("words", [("ls",), ("ls", "--json"), ("show", "shop.goods")])
def test_a_home_that_is_not_there_is_no_empty_list(
    parked: Verb, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "hme"))
    code, shown, said = parked(*words)
    assert (code, shown) == (2, "") and f"$ANABRANCH_HOME is {tmp_path / 'hme'}, which does not exist" in said
    assert not (tmp_path / "hme").exists()
    (tmp_path / "hme").mkdir()
    assert parked("ls")[:2] == (0, "no table is parked\n")


def test_rows_are_listed_and_shown(parked: Verb) -> None:
    for number in range(1, 25):
        put(number, {"id": str(number), "part": "a=b"})
    put(25, {"id": "9", "part": "a=b"}, discarded=True)
    _, listed, _ = parked("ls")
    assert "    20 shop.goods" in listed and "    21 shop.goods" not in listed and "… 4 more" in listed
    assert listed.endswith("back by anabranch parked release JOB shop.goods --all\n")
    assert len(json.loads(parked("ls", "--json")[1])["set_aside"]) == 24
    _, shown, _ = parked("show", "shop.goods")
    assert "key         id = 24, part = a=b" in shown and "discarded: refused: small" in shown
    assert "COLUMN  BEFORE  AFTER\nid      1       -\npart    a=b     -\nv       NULL    5\n" in shown
    found = json.loads(parked("show", "shop.goods", "--json")[1])
    assert found["source"] == "shop.goods" and [one["discarded"] for one in found["set_aside"]] == [False] * 24 + [True]


def test_a_row_is_asked_for_with_all_that_waits_for_it(parked: Verb, store: MemoryStore) -> None:
    for number, key in ((1, "7"), (2, "8"), (3, "7")):
        put(number, {"id": key, "part": "a=b"})
    said = parked("release", "shop.goods", "--number", "3")[1]
    assert said == "2 changes of 1 rows of shop.goods: apply will release them, now or when it starts\n"
    assert [one.wish for one in store.set_aside("shop")] == [RELEASE, "", RELEASE] and store.asked("shop")
    parked("discard", "shop.goods", "--key", "part=a=b", "--key", "id=8")
    assert [one.wish for one in store.set_aside("shop")] == [RELEASE, DISCARD, RELEASE]
    assert "release is asked for" in parked("ls")[1]
    assert parked("discard", "shop.goods", "--all")[1].startswith("3 changes of 2 rows")
    assert {one.wish for one in store.set_aside("shop")} == {DISCARD}


def test_nothing_brings_back_what_the_source_dropped(parked: Verb, store: MemoryStore) -> None:
    for table, reason in ((GOODS, "altered"), (OTHER, f"{DROPPED}: no table has this name any more")):
        store.save_table("shop", TableState(table, table, "parked", 1, reason=reason), store.tables("shop")[table])
    shown = {line.split()[0]: line.split()[-1] for line in parked("ls")[1].splitlines() if line.startswith("shop.")}
    assert shown == {"shop.goods": "shop.goods", "shop.other": "-"}
    assert parked("show", "shop.other")[1].endswith("back by     -\n")


def test_no_load_is_named_for_a_job_that_never_loads(parked: Verb, store: MemoryStore, tmp_path: Path) -> None:
    """A way back whose table somebody has altered named a load, which was refused, and that named a resume, which was, too."""
    store.save_table("shop", TableState(GOODS, GOODS, "parked", 1, reason="altered"), store.tables("shop")[GOODS])
    file = tmp_path / "shop.toml"
    file.write_text(file.read_text() + '[load]\nexisting = "take_over"\n')
    assert parked("show", "shop.goods")[1].endswith("back by     -\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one of --key, --number and --all says which rows are meant"),
        (("--all", "--number", "1"), "one of --key, --number and --all says which rows are meant"),
        (("--key", "id"), "a column and its value are wanted, as id=17"),
        (("--key", "id=1", "--key", "id=2"), "each column once"),
        (("--key", "name=x"), "the key of shop.goods is id"),
        (("--key", "id=9"), "no row of shop.goods with id = 9 is set aside — anabranch parked ls JOB lists them"),
        (("--number", "9"), "no row of shop.goods with number 9 is set aside"),
    ],
)
@pytest.mark.parametrize("verb", ["release", "discard"])
def test_what_is_asked_for_wrongly_is_refused(
    parked: Verb, store: MemoryStore, verb: str, arguments: tuple[str, ...], message: str
) -> None:
    put(1, {"id": "1"})
    code, _, said = parked(verb, "shop.goods", *arguments)
    assert code == 2 and message in said and not store.asked("shop")
