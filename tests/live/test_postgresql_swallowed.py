"""A trigger of the target that takes rows away (BEFORE … RETURN NULL), where the job's user may not switch triggers off: each
way in which apply writes rows refuses it by the trigger's name, and leaves the epoch undone."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import merge_rows
from anabranch.contracts import Conflict
from anabranch.errors import RowRefused
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Action
from anabranch.rows.net import RowChange, TableNet, Updates
from rigs.foreign_keys_postgresql import Source, key, ordinary_user, rig, table
from rigs.postgresql_writer import BAG, PAIR, TABLE, Applying, keys, prepared, rows, three

SWALLOW = "CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"


@pytest.fixture
def endpoint(target_database: Any) -> Endpoint:
    made = prepared(target_database)
    target_database.execute(SWALLOW)
    return made


@pytest.fixture(params=[0, merge_rows.FEW_ROWS], ids=["staged", "few"])
def applying(endpoint: Endpoint, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Applying]:
    """Its session does not switch triggers off; small net changes go both ways."""
    monkeypatch.setattr(merge_rows, "FEW_ROWS", request.param)
    made = Applying(endpoint)
    yield made
    made.writer.close()


def swallowing(database: Any, name: str, event: str, only: str = "") -> None:
    when = f"WHEN ({only})" * bool(only)
    database.execute(
        'DROP TRIGGER IF EXISTS "no % rows" ON ' + name,
        f'CREATE TRIGGER "no % rows" BEFORE {event} ON {name} FOR EACH ROW {when} EXECUTE FUNCTION public.swallow()',
    )


def in_window(**changes: Any) -> TableNet:
    return TableNet(TABLE, checked=False, **changes)


# what a load's window brings, where a row may be there or not -> the event, and the row that a trigger leaves out
WINDOW = {
    "insert": ("INSERT", lambda: in_window(inserts=rows((2, Decimal(7), "x"), (4, None, None)))),
    "replace": ("UPDATE", lambda: in_window(inserts=rows((2, Decimal(7), "x"), (4, None, None)))),
    "update": (
        "UPDATE",
        lambda: in_window(updates=(Updates(keys(2, 9), rows((Decimal(7),), (Decimal(8),), names=("amount",))),)),
    ),
    "delete": ("DELETE", lambda: in_window(deletes=keys(2, 9))),
    "move": (
        "DELETE",
        lambda: in_window(updates=(Updates(keys(2), rows((3, Decimal(7)), names=("id", "amount")), moves_keys=True),)),
    ),
}


@pytest.mark.parametrize("kind", WINDOW)
def test_rule_07_pitfall_41_rows_of_a_window_that_a_trigger_leaves_out(
    applying: Applying, target_database: Any, kind: str
) -> None:
    event, change = WINDOW[kind]
    three(applying)
    swallowing(target_database, 'public."Or%ders"', event)
    before = target_database.query('SELECT * FROM public."Or%ders" ORDER BY id')
    with pytest.raises(
        Conflict, match=r'fires before each row has left it out: ALTER TABLE public\."Or%ders" DISABLE TRIGGER'
    ):
        applying.merge(change())
    assert target_database.query('SELECT * FROM public."Or%ders" ORDER BY id') == before
    target_database.execute('DROP TRIGGER "no % rows" ON public."Or%ders"')
    applying.merge(change())  # without it rows that are missing are no reason


def test_rule_07_a_trigger_that_leaves_out_nothing_is_no_reason(applying: Applying, target_database: Any) -> None:
    three(applying)
    swallowing(target_database, 'public."Or%ders"', "INSERT OR UPDATE OR DELETE", only="false")
    for kind, (_, change) in WINDOW.items():
        assert applying.merge(change()) is not None, kind


def test_rule_07_pitfall_41_single_rows_that_a_trigger_leaves_out(applying: Applying, target_database: Any) -> None:
    three(applying)
    for event, change in (
        ("INSERT", RowChange(TABLE, "insert", values={"id": "7", "amount": "1"})),
        ("INSERT", RowChange(TABLE, "insert", values={"id": "7", "amount": "1"}, checked=False)),
        ("UPDATE", RowChange(TABLE, "update", {"id": "2"}, {"amount": "9"})),
        ("UPDATE", RowChange(TABLE, "update", {"id": "2"}, {"amount": "9"}, checked=False)),
        ("DELETE", RowChange(TABLE, "delete", {"id": "2"})),
        ("DELETE", RowChange(TABLE, "delete", {"id": "2"}, checked=False)),
    ):
        swallowing(target_database, 'public."Or%ders"', event)
        with pytest.raises(Conflict, match="DISABLE TRIGGER") as found, applying as writer:
            writer.change(change)
        assert found.value.key == {"id": change.old_key.get("id", "7")}
    with pytest.raises(Conflict, match="the row is not there"), applying as writer:
        writer.change(RowChange(TABLE, "delete", {"id": "99"}))


def test_rule_28_pitfall_41_rows_without_a_key_that_a_trigger_leaves_out(
    applying: Applying, target_database: Any
) -> None:
    """Their inserts were not counted."""
    one = (1, None, None, "a", None)
    for event, delta in (("INSERT", 2), ("DELETE", -1)):
        bag = rows(one, of=BAG)
        net = TableNet(BAG, multiset=bag.append_column("_delta", [[delta]]))
        swallowing(target_database, "public.bag", event)
        with pytest.raises(Conflict, match=r"of whole rows, found 0; a trigger of public\.bag"):
            applying.merge(net)
        target_database.execute('DROP TRIGGER "no % rows" ON public.bag')
        applying.merge(net)
    swallowing(target_database, "public.bag", "UPDATE OR DELETE")
    old = {"n": "1", "j": None, "f": None, "t": "a", "raw": None}
    for operation, checked in (("delete", True), ("delete", False), ("update", False)):
        with pytest.raises(Conflict, match=r"a trigger of public\.bag"), applying as writer:
            writer.change(
                RowChange(BAG, operation, {}, {"n": "2"} if operation == "update" else {}, old, checked=checked)
            )
    assert target_database.query("SELECT n FROM public.bag") == [(1,)]


def test_rule_07_keys_alone(applying: Applying, target_database: Any) -> None:
    """A row of nothing but its key that is there already hits no row, and is none that was left out."""
    target_database.execute("INSERT INTO public.pair (a, b) VALUES (1, 'x')", "ALTER TABLE public.pair DROP v")
    swallowing(target_database, "public.pair", "INSERT", only="NEW.a > 5")
    names = ("b", "a")
    applying.merge(TableNet(PAIR, inserts=rows(("x", 1), of=PAIR, names=names), checked=False))
    with pytest.raises(Conflict, match=r"a trigger of public\.pair"):
        applying.merge(TableNet(PAIR, inserts=rows(("x", 1), ("x", 9), of=PAIR, names=names), checked=False))


@pytest.mark.parametrize("size", [1, 60])
def test_rule_07_pitfall_41_an_epoch_is_refused_by_the_triggers_name(
    target_database: Any, tmp_path: Path, size: int
) -> None:
    """Epochs of an ordinary user, few rows and many: inserts, updates, deletes, and what a key's action does to children."""
    target_database.execute(SWALLOW, "GRANT EXECUTE ON FUNCTION public.swallow() TO PUBLIC")
    with ordinary_user(target_database) as user:
        for event in ("INSERT", "UPDATE", "DELETE", "SET NULL"):
            tables = [table("parent", "v"), table("child", "p v", key("p", "parent", Action.SET_NULL))]
            where = event.lower().replace(" ", "_")
            one, source = rig(target_database, tables, tmp_path, user, where=where), Source(tables)
            for n in range(size):
                source.insert("parent", id=n, v=0)
                source.insert("child", id=n, p=n, v=0)
            source.commit()
            one.apply(*source.done)
            source.done = []
            name = "child" if event == "SET NULL" else "parent"
            swallowing(target_database, f"keys_{where}.{name}", event.replace("SET NULL", "UPDATE"))
            for n in range(size):
                if event == "INSERT":
                    source.insert("parent", id=1000 + n, v=0)
                elif event == "UPDATE":
                    source.update("parent", n, v=1)
                else:
                    source.delete("parent", n)
            source.commit()
            with pytest.raises(RowRefused, match=f"a trigger of keys_{where}.{name} that fires"):
                one.apply(*source.done)
            target_database.execute(f'DROP TRIGGER "no % rows" ON keys_{where}.{name}')
            one.applier.apply(one.trail.end.position.sequence)
            assert one.rows() == source.rows, event
            one.close()
