"""Epochs at a real PostgreSQL whose foreign keys and triggers act on what is applied, because the job's user may not switch
them off (K7)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import merge_rows
from anabranch.errors import RowRefused, TargetError
from anabranch.model.schema import Action, TableSchema
from rigs.foreign_keys_postgresql import Rig, Source, key, ordinary_user, rig, table, transaction

RESTRICT, CASCADE, SET_NULL = Action.RESTRICT, Action.CASCADE, Action.SET_NULL
# all keys of a schema as a user makes them who does not think of this
HARD = """
DO $$ DECLARE k record; BEGIN
  FOR k IN SELECT conrelid::regclass AS t, conname FROM pg_constraint
            WHERE contype = 'f' AND connamespace = '{where}'::regnamespace LOOP
    EXECUTE format('ALTER TABLE %s ALTER CONSTRAINT %I NOT DEFERRABLE', k.t, k.conname);
  END LOOP;
END $$
"""


@pytest.fixture
def plain(target_database: Any) -> Iterator[str]:
    with ordinary_user(target_database) as user:
        yield user


def family(on_delete: Action, on_update: Action = RESTRICT) -> list[TableSchema]:
    return [
        table("parent", "v"),
        table("child", "p v", key("p", "parent", on_delete, on_update)),
        table("grandchild", "c v", key("c", "child", on_delete, RESTRICT)),
        table("tree", "up", key("up", "tree", on_delete, RESTRICT)),
        table("left_one", "r", key("r", "right_one", SET_NULL)),
        table("right_one", "l", key("l", "left_one", SET_NULL)),
        table("land", "code", unique="code"),
        table("town", "land v", key("land", "land", on_delete, on_update, "code")),
        table("city", "code v", unique="code", is_keyless=True),
        table("street", "city", key("city", "city", on_delete, on_update, "code")),
    ]


def carried_out(source: Source, one: Rig, slow: int | None = 0) -> None:
    """All that was committed at the source, in one epoch; both ends are the same."""
    found, source.done = one.apply(*source.done), []
    assert one.rows() == source.rows
    assert slow is None or found == slow, f"{found} slow"


@pytest.mark.parametrize("hard", [False, True], ids=["deferrable", "hard"])
def test_rule_07_pitfall_16_an_order_that_foreign_keys_accept(
    target_database: Any, plain: str, tmp_path: Path, hard: bool
) -> None:
    """Rows of all tables in one epoch, few of them and many: made, moved to another parent whose former one goes, gone."""
    tables = family(CASCADE, CASCADE)
    one = rig(target_database, tables, tmp_path, plain, statements=[HARD.format(where="keys_on")] if hard else [])
    source = Source(tables)
    for size in (5, 60):
        for n in range(1, size):
            source.insert("tree", id=n, up=n - 1 or None)
            source.insert("parent", id=n, v=0)
            source.insert("child", id=n, p=n, v=0)
            source.insert("grandchild", id=n, c=n, v=0)
        source.commit()
        carried_out(source, one)
        for n in range(1, size - 1):
            source.update("child", n, p=size - 1)
            source.delete("parent", n)
        source.insert("parent", id=900 + size, v=1)
        source.update("grandchild", 1, c=2)
        source.delete("child", 1)
        source.commit()
        source.delete("tree", 2)  # the subtree goes with it
        source.commit()
        carried_out(source, one)
        source.delete("parent", size - 1)  # children and theirs go with it
        source.delete("tree", 1)
        source.commit()
        carried_out(source, one)
    rule_07_rows_in_a_circle(source, one, hard)
    rule_07_parents_that_get_another_key(source, one)
    rule_07_a_chain_of_keys(source, one)
    rule_07_values_that_go_from_one_parent_to_another(source, one)
    rule_07_parents_without_a_key_stay_where_they_are(source, one)
    one.close()


def rule_07_rows_in_a_circle(source: Source, one: Rig, hard: bool) -> None:
    """Each refers to the other: one row first with NULL, as at the source. Set-wise that is one insert of the final row."""
    source.insert("left_one", id=1, r=None)
    source.insert("right_one", id=1, l=1)
    source.update("left_one", 1, r=1)
    source.commit()
    source.insert("left_one", id=2, r=1)
    source.commit()
    carried_out(source, one, slow=2 if hard else 0)  # the epoch, and the one transaction that has no order
    source.delete("right_one", 1)
    source.commit()
    carried_out(source, one)


def rule_07_parents_that_get_another_key(source: Source, one: Rig) -> None:
    source.insert("parent", id=1, v=0)
    source.insert("child", id=1, p=1, v=0)
    source.commit()
    carried_out(source, one)
    source.update("parent", 1, id=2)
    source.commit()
    carried_out(source, one)
    source.insert("child", id=2, p=2, v=0)
    source.update("parent", 2, id=3)
    source.insert("child", id=3, p=3, v=0)
    source.commit()
    carried_out(source, one)


def rule_07_a_chain_of_keys(source: Source, one: Rig) -> None:
    """What one parent leaves another takes over: the target's key takes children along with each."""
    source.insert("parent", id=4, v=0)
    source.insert("child", id=4, p=4, v=0)
    source.commit()
    carried_out(source, one)
    for old, new in ((4, 5), (3, 4), (5, 6), (4, 5)):
        source.update("parent", old, id=new)
    source.commit()
    carried_out(source, one, slow=None)


def rule_07_values_that_go_from_one_parent_to_another(source: Source, one: Rig) -> None:
    for number in (1, 2):
        source.insert("land", id=number, code=number)
        source.insert("town", id=number, land=number, v=0)
    source.commit()
    carried_out(source, one)
    for number, code in ((1, 9), (2, 1), (1, 2)):
        source.update("land", number, code=code)
    source.commit()
    carried_out(source, one, slow=None)
    assert [source.rows["town"][n]["land"] for n in (1, 2)] == [2, 1]


def rule_07_parents_without_a_key_stay_where_they_are(source: Source, one: Rig) -> None:
    """Taken away and put back, they would take their children along."""
    source.insert("city", id=1, code=1, v=0)
    source.insert("street", id=1, city=1)
    source.commit()
    carried_out(source, one)
    source.update("city", 1, code=5)
    source.update("city", 1, v=1)
    source.update("city", 1, v=2)
    source.commit()
    carried_out(source, one, slow=None)
    assert source.rows["street"][1]["city"] == 5


@pytest.mark.parametrize("size", [1, 40])
def test_rule_07_a_key_below_does_not_stand_yet(target_database: Any, plain: str, tmp_path: Path, size: int) -> None:
    """What the target does by itself ends where the next key is missing: while keys are built, or a table joins. Children
    that the log deletes, too, go first."""
    tables = family(CASCADE, RESTRICT)
    drop = "ALTER TABLE keys_on.grandchild DROP CONSTRAINT fk_c"
    one = rig(target_database, tables, tmp_path, plain, statements=[drop])
    source = Source(tables)
    for n in range(1, 2 * size + 1):
        source.insert("parent", id=n, v=0)
        source.insert("child", id=n, p=n, v=0)
        source.insert("grandchild", id=n, c=n, v=0)
    source.commit()
    carried_out(source, one)
    for n in range(1, size + 1):
        source.delete("child", 2 * n)
        source.delete("parent", 2 * n)
        source.delete("parent", 2 * n - 1)
    source.commit()
    carried_out(source, one)
    assert not any(source.rows[name] for name in ("child", "grandchild"))
    one.close()


def test_rule_07_keys_of_the_target_that_only_check(target_database: Any, plain: str, tmp_path: Path) -> None:
    """The source's keys remove and clear children; the target's neither do that nor wait: what we do comes first."""
    tables = family(CASCADE)
    own = [
        f"ALTER TABLE {t} DROP CONSTRAINT fk_{c}, ADD CONSTRAINT fk_{c} FOREIGN KEY ({c}) REFERENCES {p}"
        for t, c, p in (("child", "p", "parent"), ("grandchild", "c", "child"))
    ]
    one = rig(target_database, tables, tmp_path, plain, statements=own)
    source = Source(tables)
    for n in range(1, 4):
        source.insert("parent", id=n, v=0)
        source.insert("child", id=n, p=n, v=0)
        source.insert("grandchild", id=n, c=n, v=0)
    source.commit()
    carried_out(source, one)
    source.delete("parent", 2)
    source.commit()
    source.insert("child", id=9, p=1, v=0)
    source.commit()
    carried_out(source, one)
    one.close()


def test_rule_07_what_the_source_did_with_its_keys_off(target_database: Any, plain: str, tmp_path: Path) -> None:
    """Rows without a parent are refused by name. Rows that the source has kept are not taken along by the target's key."""
    tables = family(CASCADE, CASCADE)
    one = rig(target_database, tables, tmp_path, plain)
    one.apply([("parent", "i", {"id": n, "v": 0}) for n in (1, 2)], [("child", "i", {"id": 1, "p": 1, "v": 0})])
    one.apply([("parent", "u", {"id": 2, "v": 0}, {"id": 2, "v": 1})], keys_off=True)
    one.apply([("parent", "d", {"id": 2, "v": 1})], keys_off=True)
    before = one.rows()
    for change in (("d", {"id": 1, "v": 0}), ("u", {"id": 1, "v": 0}, {"id": 7, "v": 0})):
        with pytest.raises(RowRefused, match=r"kept rows of keys_on.child.*fk_p.*row id = 1"):
            one.apply([("parent", *change)], keys_off=True)
        one.pass_over()
    with pytest.raises(RowRefused, match=r"fk_p.*its foreign keys off.*row p = 77"):
        one.apply([("child", "i", {"id": 2, "p": 77, "v": 0})], keys_off=True)
    one.pass_over()
    with pytest.raises(RowRefused, match=r"kept rows of keys_on.child.*fk_p"):
        one.truncate("parent")
    one.pass_over()
    assert one.rows() == before
    one.truncate("parent", "grandchild", "child")
    assert not any(one.rows().values())
    one.apply([("parent", "i", {"id": 1, "v": 0})], [("child", "i", {"id": 1, "p": 1, "v": 0})])
    one.truncate("grandchild")
    one.log([("child", "i", {"id": 3, "p": 1, "v": 0})])  # in one epoch: its check is still due
    one.truncate("child")
    one.truncate("parent")
    assert not any(one.rows().values())
    one.close()


def test_rule_07_pitfall_41_triggers_fire_without_the_right_only(
    target_database: Any, plain: str, tmp_path: Path
) -> None:
    """What is decided at the start holds: a right that is gone when the line is made again stops the job."""
    tables = family(RESTRICT)
    count = (
        "CREATE TABLE fired (id int)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = keys_{0}"
        " AS $$BEGIN INSERT INTO fired VALUES (NEW.id); RETURN NEW; END$$",
        "CREATE TRIGGER note AFTER INSERT ON tree FOR EACH ROW EXECUTE FUNCTION keys_{0}.note()",
    )
    insert = [("tree", "i", {"id": 1, "up": None})]
    for where, fired in (("on", 1), ("off", 0)):
        one = rig(target_database, tables, tmp_path, plain, where, [s.format(where) for s in count])
        assert one.apply(insert) == 0
        assert len(target_database.query(f"SELECT FROM keys_{where}.fired")) == fired
        one.applier.progress.writer.close()
        grant = f"SET ON PARAMETER session_replication_role {'TO' if fired else 'FROM'} {plain}"
        target_database.execute(f"GRANT {grant}" if fired else f"REVOKE {grant}")
        if fired:
            assert one.apply([("tree", "i", {"id": 2, "up": 1})]) == 0  # as it was decided
            assert len(target_database.query("SELECT FROM keys_on.fired")) == 2
        else:
            with pytest.raises(TargetError, match="session_replication_role"):
                one.apply([("tree", "i", {"id": 2, "up": 1})])
        one.close()


def test_rule_07_a_key_that_would_lose_rows_is_refused_at_the_start(
    target_database: Any, plain: str, tmp_path: Path
) -> None:
    tables = family(SET_NULL)
    own = "ALTER TABLE child DROP CONSTRAINT fk_p, ADD CONSTRAINT mine FOREIGN KEY (p) REFERENCES parent ON DELETE CASCADE"
    with pytest.raises(
        TargetError, match=r"mine of keys_on\.child is ON DELETE CASCADE, the source's ON DELETE SET NULL"
    ):
        rig(target_database, tables, tmp_path, plain, statements=[own])


def test_rule_07_pitfall_17_a_deferred_key_is_asked_at_commit_and_names_the_value(
    target_database: Any, plain: str, tmp_path: Path
) -> None:
    """A key of the target's own, for which the source has rows without a parent."""
    tables = [table("parent", "v"), table("child", "p")]
    own = "ALTER TABLE child ADD CONSTRAINT mine FOREIGN KEY (p) REFERENCES parent DEFERRABLE INITIALLY DEFERRED"
    one = rig(target_database, tables, tmp_path, plain, statements=[own])
    one.apply([("child", "i", {"id": 1, "p": 5})], [("parent", "i", {"id": 5, "v": 0})])
    with pytest.raises(RowRefused, match=r"mine.*row p = 6"):
        one.apply([("child", "i", {"id": 2, "p": 6})], [("child", "i", {"id": 3, "p": 5})])
    assert one.rows()["child"] == {1: {"id": 1, "p": 5}}
    one.close()


# --- any history ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_rule_07_pitfall_16_any_history_ends_as_at_the_source(
    target_database: Any, plain: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With keys off, with keys that wait, and with keys that do not; rows alone, and by staging tables."""
    monkeypatch.setattr(merge_rows, "FEW_ROWS", seed % 2 * merge_rows.FEW_ROWS)
    pick = random.Random(seed)
    actions = RESTRICT, CASCADE, SET_NULL
    tables = family(actions[seed % 3], pick.choice(actions))
    hard = [HARD.format(where="keys_hard")]
    rigs = [
        rig(target_database, tables, tmp_path, plain, "soft"),
        rig(target_database, tables, tmp_path, plain, "hard", hard),
        rig(target_database, tables, tmp_path, "", "off"),
    ]
    assert [one.applier.progress.context.keys is None for one in rigs] == [False, False, True]
    source = Source(tables)
    for _ in range(6):
        for _ in range(pick.randrange(1, 12)):
            transaction(source, pick)
        for one in rigs if source.done else ():
            one.apply(*source.done)
            assert one.rows() == source.rows, one.where
        source.done = []
    for one in rigs:
        one.close()
