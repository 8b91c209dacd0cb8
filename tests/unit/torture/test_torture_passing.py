"""Tables of a history that are made, renamed and dropped: drawn, named as they are called then, and as the model has them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from anabranch.failpoints import POINTS
from anabranch.testing.torture import passing
from anabranch.testing.torture.check import BACK, FINAL, MODEL, WRONG, Checker
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.history import PASSING, History, Statement, Transaction
from anabranch.testing.torture.model import Model, Refused
from anabranch.testing.torture.order import order_in
from anabranch.testing.torture.passing import may_pass, passing_faults, passing_sql, setting, wrong_outcomes
from anabranch.testing.torture.shrink import _fewer_tables, _only, _Search
from anabranch.testing.torture.sources import Commits
from anabranch.testing.torture.speaker import COMMITTED, Outcome, Result
from anabranch.testing.torture.tables import DROPPED, LEDGER, MADE, RENAMED, Column, Schema, Table, heading
from anabranch.testing.torture.targets import found_in, shown_in
from rigs.torture_history import seen

VERSIONS = {"mysql": (8, 0, 33), "mariadb": (10, 11, 6)}
COLUMNS = (Column("id", "int", nullable=False), Column("v1", "int"))
OTHERS = (COLUMNS[0], Column("v5", "int"))
# One is dropped and comes again with other columns, one gets another name and is dropped then, one stays.
TABLES = Schema(
    (
        Table("t1", COLUMNS, ("id",)),
        Table("p1", COLUMNS, ("id",), life=(DROPPED,)),
        Table("p1b", OTHERS, ("id",), life=(MADE,), called="p1"),
        Table("p2", COLUMNS, ("id",), life=(RENAMED, DROPPED)),
    )
)
DROP, MAKE = Statement("drop", "p1"), Statement("make", "p1", name="p1b")
RENAME, DROP_NEXT = Statement("rename", "p2", name="p2n"), Statement("drop", "p2n")
HEAD = heading(["id", "v1"])


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def histories(request: pytest.FixtureRequest) -> list[History]:
    return [draw_history(seed, request.param, VERSIONS[request.param], passes=True) for seed in range(25)]


def insert(table: str, *numbers: str, column: str = "v1") -> Statement:
    return Statement("insert", table, ("id", column), tuple((number, number) for number in numbers))


def test_statements_name_tables_as_they_are_called_then(histories: list[History]) -> None:
    lives, used, drops = set(), 0, set()
    for history in histories:
        assert History.from_json(json.loads(json.dumps(history.to_json()))) == history
        assert history.passes and not any(t.alone and t.alone.do in PASSING for t in (*history.before, *history.during))
        there = {table.names[0] for table in history.schema.tables if MADE not in table.life}
        drops.add(history.drops)
        for transaction in history.transactions:
            for one in (part for s in transaction.statements for part in (s, *s.parts) if part.table):
                assert (one.table in there) == (one.do != "make")
                used += one.table.startswith("p")
                if one.do in PASSING:
                    assert not transaction.is_numbered and not transaction.truncates
                    there -= {one.table} - ({one.table} if one.do == "make" else set())
                    there |= {"make": {one.table}, "rename": {one.name}}.get(one.do, set())
        found = {name: [table.life for table in tables] for name, tables in history.schema.passing().items()}
        lives |= {tuple(life) for name, life in found.items() if not name.endswith("n")}
        assert history.drops != "keep" or not any(table.called for table in history.schema.tables)
    assert lives == {*map(tuple, passing.LIVES)} and used > 500 and drops == {"apply", "rename", "keep"}


def test_others_are_as_they_were(histories: list[History]) -> None:
    assert not draw_history(3, "mysql", VERSIONS["mysql"]).passes
    assert not draw_history(3, "postgresql", (18, 4), passes=True).passes
    assert 0.2 < sum(map(may_pass, range(1000))) / 1000 < 0.3
    assert {len(passing_faults(history)) for history in histories} == {0, 1} and set(passing.POINTS) < set(POINTS)
    assert f'drop_table = "{histories[0].drops}"\n' in setting(histories[0])


def test_tables_that_are_made_are_told_whole_by_their_statement(histories: list[History]) -> None:
    alike = set()
    for table in (table for history in histories for table in history.schema.tables if MADE in table.life):
        assert not table.foreign_keys and not any("\\" in column.of.native for column in table.columns)
        assert not any(c.default and c.of.native.startswith(("timestamp", "bit")) for c in table.columns)
        alike.add(table.called and all(c.name < "v5" for c in table.columns if c.name.startswith("v")))
    assert alike == {"", True, False}


def test_what_is_said_and_found_in_the_log() -> None:
    said = [
        passing_sql(TABLES, one, 12, "utf8mb4_bin")
        for one in (MAKE, DROP, RENAME, Statement("rename", "p2", name="p2n", order="ALTER"))
    ]
    made = "CREATE /* 12 */ TABLE p1 (id int NOT NULL, v5 int, PRIMARY KEY (id)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    assert said == [made, "DROP TABLE p1", "RENAME /* 12 */ TABLE p2 TO p2n", "ALTER /* 12 */ TABLE p2 RENAME TO p2n"]
    log = [*said[2:], "DROP TABLE `p1` /* generated by server */", "/*!*/;", made.replace("12", "15"), "DROP TABLE p2n"]
    assert order_in("\n".join(log).encode(), "d", {"p1": 14, "p2n": 16}) == [12, 12, 14, 15, 16]
    ours = [
        "DROP TABLE IF EXISTS `d`.`p1` /* generated by ddl recovery */",
        "CREATE TABLE x (n INT)",
        "RENAME TABLE a TO b",
    ]
    assert order_in("\n".join(ours).encode(), "d", {"p1": 14}) == [14]
    one = Transaction(12, 0, (MAKE,))
    assert _only(one, set()) == one


@pytest.mark.parametrize(
    ("drops", "kept"),
    [
        ("", {"p1": [], "p1__dropped": []}),
        ("apply", {"p1": [], "p1__dropped": []}),
        ("rename", {"p1": [], "p1__dropped": [b"1\t1", HEAD]}),
        ("keep", {"p1": [b"1\t1", HEAD], "p1__dropped": []}),
    ],
)
def test_a_dropped_table_is_kept_as_the_job_file_says(drops: str, kept: dict[str, list[bytes]]) -> None:
    model = Model(TABLES, "mysql", drops)
    model.replay([(insert("p1", "1"), 1), (insert("p2", "2"), 1), (insert("t1", "3"), 1)])
    assert model.lines("t1") == [b"3\t3"] and model.lines("p1") is model.lines("p1") and model.lines("p2n") == []
    model.replay([(DROP, 0), (RENAME, 0)])
    assert {name: model.lines(name) for name in kept} == kept
    assert (model.lines("p2"), model.lines("p2n")) == ([], [b"2\t2", HEAD])


def test_a_name_has_one_table_after_another() -> None:
    model = Model(TABLES, "mysql", "rename")
    model.execute(insert("p1", "1"))
    for refused in (MAKE, DROP_NEXT, insert("p2n", "1"), Statement("rename", "p2", name="p1")):
        with pytest.raises(Refused, match="there is"):
            model.execute(refused)
    model.execute(DROP)
    with pytest.raises(Refused, match="no table p1"):
        model.execute(insert("p1", "2"))
    model.execute(MAKE)
    model.execute(insert("p1", "7", column="v5"))
    assert model.lines("p1") == [b"7\t7", heading(["id", "v5"])] and model.lines("p1__dropped") == [b"1\t1", HEAD]
    assert (model.head("p1"), model.head("t1"), model.head("p2n")) == (heading(["v5", "id"]), b"", b"")


def judged(drops: str, *states: tuple[str, dict[str, list[bytes]]], truncates: bool = True) -> str:
    """Judge looks at a target: the ledger's rows, and the tables' lines. The last one is the end."""
    steps = {
        1: insert("p1", "1"),
        2: DROP,
        3: insert("t1", "3"),
        4: MAKE,
        5: insert("p1", "5", column="v5"),
        6: Statement("truncate", "p1"),
    }
    history = History(1, TABLES, (), (), tuple(Transaction(n, 0, (one,)) for n, one in steps.items()), drops=drops)
    outcomes = {n: Outcome(n, (Result(0, one.do == "insert"),), COMMITTED) for n, one in steps.items()}
    judge = Checker(history, "mysql", outcomes, Commits(tuple(steps)), truncates=truncates)
    looks = seen(*({LEDGER: [n.encode() for n in ledger], **some} for ledger, some in states))
    found = judge.observed(looks) or judge.final(looks[-1])
    return found.kind if found else ""


def test_a_table_that_is_away_is_a_state_as_any_other() -> None:
    first: list[bytes] = [HEAD, b"1\t1"]
    again: list[bytes] = [heading(["id", "v5"])]
    rows = [*again, b"5\t5"]
    end = ("135", {"t1": [b"3\t3"], "p1": again, "p1__dropped": []})
    assert (
        judged("apply", ("1", {"p1": first}), ("1", {"p1": []}), ("13", {"p1": []}), ("13", {"p1": again}), end) == ""
    )
    assert judged("apply", ("13", {"p1": first}), end) == WRONG  # it should be gone
    assert judged("apply", ("1", {"p1": []}), ("1", {"p1": first}), end) == WRONG
    assert judged("apply", ("13", {"p1": []}), ("1", {"p1": first}), end) == BACK
    assert judged("apply", ("13", {"p1": first[:1]}), end) == WRONG  # the one that comes has other columns
    assert judged("apply", ("135", {"p1": again}), end) == ""  # too old for the TRUNCATE, or behind it
    assert judged("apply", ("135", {"p1": []}), end) == WRONG
    assert judged("apply", ("135", {"p1": rows}), ("135", {"p1": rows, "t1": [b"3\t3"]})) == FINAL
    kept = ("135", {"t1": [b"3\t3"], "p1": again, "p1__dropped": first})
    assert judged("rename", ("1", {"p1": [], "p1__dropped": first}), kept) == ""
    assert judged("rename", ("13", {"p1": [], "p1__dropped": []}), kept) == WRONG and judged("rename", end) == WRONG


def test_the_source_keeps_nothing_of_what_is_dropped() -> None:
    history = History(1, TABLES, (), (), (Transaction(1, 0, (DROP,)),), drops="keep")
    judge = Checker(history, "mysql", {1: Outcome(1, (Result(0),), COMMITTED)}, Commits((1,)))
    lines: dict[str, Sequence[bytes]] = {LEDGER: [], "t1": [], "p1": [], "p2": [HEAD], "p2n": []}
    assert judge.source(lines) is None
    failure = judge.source({**lines, "p1": [HEAD]})
    assert failure and failure.kind == MODEL


def test_which_tables_are_there_is_told_by_their_columns() -> None:
    there = {
        ("p1", "id"),
        ("p1", "v5"),
        ("p1", "4711"),
        ("p1__dropped_20261128_031207", "id"),
        ("p1__dropped_20261128_031207", "v1"),
    }
    kinds = {name: [table.columns for table in tables] for name, tables in TABLES.passing("rename").items()}
    assert [*kinds] == ["p1", "p1__dropped", "p2", "p2n", "p2n__dropped"] and [*TABLES.passing()] == ["p1", "p2", "p2n"]
    again, kept = found_in(kinds, there)
    assert (again.name, again.table, again.columns) == ("p1", "p1", OTHERS)
    assert (kept.name, kept.table, kept.columns) == ("p1__dropped", "p1__dropped_20261128_031207", COLUMNS)
    twice = found_in(kinds, there | {("p1__dropped_20261128_031208", column) for column in ("id", "v1")})
    assert [one.name for one in twice] == ["p1", "p1__dropped", "p1__dropped"]
    shown = shown_in(kinds, twice, [b"", b"1\t1\n", b"1\t1\n"])
    assert shown["p2"] == b"" and sorted(shown["p1__dropped"].splitlines()) == sorted([HEAD, b"1\t1"] * 2)
    (strange,) = found_in(kinds, {("p2", "id"), ("p2", "x")})
    assert strange.columns == () and strange.head == b"there, with id x\n"


def test_tables_that_nobody_names_are_left_out_of_a_smaller_history() -> None:
    search = _Search(lambda history: pytest.fail("unused"), 10, 0.0)
    search.fails = lambda history: True  # type: ignore[method-assign]  # each history fails for this test
    history = History(1, TABLES, (), (), (Transaction(1, 0, (RENAME,)), Transaction(2, 0, (insert("p2n", "1"),))))
    assert [table.name for table in _fewer_tables(history, search).schema.tables] == ["p2"]
    made = history.with_transactions(lambda t: Transaction(1, 0, (MAKE,)) if t.number == 1 else None)
    assert [table.name for table in _fewer_tables(made, search).schema.tables] == ["p1", "p1b"]


def test_what_a_target_notes_is_compared_with_the_log() -> None:
    """A renamed table has its note under the next name; a statement that was refused has none, nor has one of another table."""
    steps = (DROP, MAKE, RENAME, DROP_NEXT, Statement("grow", "t1", ("v8",)))
    transactions = tuple(Transaction(number, 0, (one,)) for number, one in enumerate(steps, 1))
    history = History(1, TABLES, (), (), transactions, drops="rename")
    noted = [("p1", "kept"), ("t1", "altered"), ("p2n", "renamed"), ("p1", "created")]
    assert wrong_outcomes(history, (1, 5, 3, 2), noted) == ""
    assert wrong_outcomes(history, (1, 3, 2, 4), noted) and wrong_outcomes(history, (1, 2, 3), noted)
    assert wrong_outcomes(history, (1, 3, 2), [*noted[:3], ("p1", "parked")])
