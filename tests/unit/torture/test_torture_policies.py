"""Policies that hide rows from everybody but a history's job: where they are drawn, and for whom."""

from __future__ import annotations

from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.bound import USER as BOUND
from anabranch.testing.torture.bound import Bound
from anabranch.testing.torture.deeds import POLICY, draw_deed
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.parts import Ended
from anabranch.testing.torture.policies import KINDS, USER, at_the_source, has_policies
from anabranch.testing.torture.postgresql_target_tables import PostgresqlTargetTables
from anabranch.testing.torture.worst import USER as WORST
from anabranch.testing.torture.worst import has_worst

SEEDS = range(200)


def server(name: str) -> Server:
    return Server(name, "18.4", "h", 1, "admin", "p")


def ground(source: str, *, is_ours: bool = True) -> Ground:
    target = Database(server("postgresql"), "postgres")
    return Ground([server(source)], target, is_ours, Database(server("postgresql"), "plain"))


def test_whoever_policies_do_not_concern_comes_to_private_servers() -> None:
    """To a MySQL there come others; a target that belongs to somebody is his; who has the worst settings keeps them."""
    users = {name: [ground(name).users_of(seed) for seed in SEEDS] for name in ("mysql", "postgresql")}
    assert {"target": BOUND} in users["postgresql"] and {"target": BOUND} in users["mysql"]
    assert {"source": USER, "target": USER} in users["postgresql"] and {"source": USER} in users["postgresql"]
    assert {"target": USER} in users["mysql"] and {"source": USER} not in users["mysql"]
    assert {"source": WORST, "target": WORST} in users["mysql"]
    for seed in SEEDS:
        assert not (has_policies(seed) and has_worst(seed))
        assert ground("postgresql", is_ours=False).users_of(seed) == {}


def test_tables_of_the_source_get_one_of_each_kind_or_none() -> None:
    names = ("ledger", "t1", "t2", "t3")
    said = [statement for seed in SEEDS for statement in at_the_source(seed, names)]
    for kind in filter(None, KINDS):
        assert any(kind.format(table) in said for table in names), kind
    assert "ALTER TABLE ledger ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY" in said
    with_them = [seed for seed in SEEDS if has_policies(seed)]
    assert not any(list(at_the_source(seed, names)) for seed in SEEDS if seed not in with_them)
    assert list(at_the_source(with_them[0], names)) == list(at_the_source(with_them[0], names))


def test_a_policy_comes_in_some_histories_without_another_deed() -> None:
    """Whoever it concerns comes to no history but these."""
    for seed in SEEDS:
        is_bound = BOUND in ground("mysql").users_of(seed).values()
        deed = draw_deed(seed)
        assert not is_bound or (deed and deed.kind == POLICY)
    share = sum(deed.kind == POLICY for seed in range(2000) if (deed := draw_deed(seed))) / 2000
    assert 0.06 < share < 0.11


def test_what_it_explains_is_an_error_that_names_the_table() -> None:
    tables = PostgresqlTargetTables(Database(server("postgresql"), "d"), "torture_7")
    bound = Bound(22, tables, None, dict, lambda _: None)  # type: ignore[arg-type]  # nothing runs
    said = 'query would be affected by row-level security policy for table "t1"'
    ended = Ended("apply", 1, 5, 0.0, "TargetError", said)
    assert not bound.explains(ended)  # there is none yet
    bound._table = "t1"
    assert bound.explains(ended)
    for other in (
        Ended("apply", 1, 1, 0.0, "", said),
        Ended("capture", 1, 5, 0.0, "TargetError", said),
        Ended("apply", 1, 5, 0.0, "TargetError", said.replace("t1", "t2")),
        Ended("apply", 1, 5, 0.0, "TargetError", 'no such table "t1"'),
    ):
        assert not bound.explains(other)


def test_what_is_made_is_lifted() -> None:
    tables = PostgresqlTargetTables(Database(server("postgresql"), "d"), "s")
    made = [Bound(draw, tables, None, dict, lambda _: None) for draw in range(0, 55, 11)]  # type: ignore[arg-type]  # nothing runs
    said = [tables.making("t1", one._disturbance(TableId("s", "t1"))) for one in made]
    assert said[0] == "ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; " and len(set(said)) == len(KINDS)
    assert any('CREATE POLICY more ON "s"."t1"' in one for one in said)
    assert tables.lifting("t1", made[0]._disturbance(TableId("s", "t1"))).endswith(
        'DROP POLICY IF EXISTS more ON "s"."t1"'
    )
