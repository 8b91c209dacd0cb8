"""Updates that take unique values or keys from each other, on real MySQL and MariaDB: rows that a change replaces, and rows of
which it brings a part (K8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from anabranch.connectors.mysql.target.exchange import CANNOT_PARK, REFERRED
from anabranch.connectors.mysql.target.session import ask, connect
from anabranch.connectors.mysql.target.stage import MysqlStager
from anabranch.contracts import Conflict, ValueRules
from anabranch.rows.net import UPDATE, RowChange, TableNet, TargetTable, Updates
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.mysql_writer import INT, TEXT, Applying, applying_at, keys, rows, updates

FOLDED = "VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"  # 'a' = 'A', 'a' = 'a '
SEATS = f"""
id INT PRIMARY KEY, u {FOLDED} NULL UNIQUE, v INT NULL UNIQUE, a INT NOT NULL, b INT NOT NULL, w {FOLDED} NOT NULL,
UNIQUE KEY (a, b), UNIQUE KEY (w(6))
"""
COLUMNS = {"id": INT, "u": TEXT, "v": INT, "a": INT, "b": INT, "w": TEXT}
STEP = 100  # between the numbers of two copies of a case
Seat = tuple[int, str | None, int | None, int, int, str]

SINCE_56 = pytest.mark.every_server("row images")
# Literals, or LOAD DATA and a staging table.
SIZES = pytest.mark.parametrize("many", [1, 150], ids=["few", "many"])

BEFORE: dict[int, Seat] = {
    1: (1, "a", 1, 7, 1, "a one"),
    2: (2, "b", 2, 7, 2, "b two"),
    3: (3, "c", 3, 7, 3, "c three"),
    4: (4, None, None, 7, 4, "d four"),
    5: (5, "e", 5, 7, 5, "e five"),
}


@dataclass(frozen=True)
class Case:
    """Describe by their keys what rows become; rows that are not named stay as they are."""

    changed: Mapping[int, Mapping[str, Any]]
    gone: Sequence[int] = ()
    new: Sequence[Seat] = ()
    is_refused: bool = False


def moved(by: int, *numbers: int) -> dict[int, dict[str, Any]]:
    return {number: {"id": number + by} for number in numbers}


CASES = {
    "two swap two keys": Case({1: {"u": "b", "v": 2}, 2: {"u": "a", "v": 1}}),
    "a turn with NULL": Case({1: {"u": None}, 2: {"u": "a"}, 3: {"u": "b"}, 4: {"u": "c", "v": None}}),
    "a chain to what is free": Case({1: {"u": "b"}, 2: {"u": "c"}, 3: {"u": "new"}}),
    "a chain the other way": Case({3: {"u": "b"}, 2: {"u": "a"}, 1: {"u": "new"}}),
    "keys up": Case(moved(1, 1, 2, 3, 4, 5)),
    "keys down": Case(moved(-1, 1, 2, 3, 4, 5)),
    "keys round": Case({1: {"id": 2}, 2: {"id": 3}, 3: {"id": 1}}),
    "keys up, values down": Case(
        {1: {"id": 2, "u": "c"}, 2: {"id": 3, "u": "a"}, 3: {"id": 4, "u": "b"}, 4: {"id": 9}}
    ),
    "another case, a blank": Case({1: {"u": "B "}, 2: {"u": "A"}}),
    "its own value, spelled otherwise": Case({1: {"u": "A "}, 2: {"u": "B"}}),
    "two columns": Case({1: {"b": 2}, 2: {"b": 3}, 3: {"b": 1}}),
    "beginnings": Case({1: {"w": "b new"}, 2: {"w": "A new"}}),
    "each key another way": Case({1: {"u": "b", "v": 3, "b": 2}, 2: {"u": "c", "v": 1, "b": 1}, 3: {"u": "a", "v": 2}}),
    "of a row that goes": Case({1: {"u": "c"}, 2: {"u": "a"}}, gone=[3], new=[(6, "b", 3, 7, 3, "c six")]),
    "the key of a row that goes": Case({1: {"id": 2}, 2: {"id": 3}}, gone=[3], new=[(1, "c", 3, 7, 3, "c one")]),
    "of a row that stays": Case({1: {"u": "b"}, 2: {"u": "E"}}, is_refused=True),
    "a key of a row that stays": Case({1: {"id": 2}, 2: {"id": 3}}, is_refused=True),
    "the same for two": Case({1: {"v": 9}, 2: {"v": 9}}, is_refused=True),
    "of no row": Case({1: {"u": "b"}, 2: {"u": "a"}, 77: {"u": "g"}}, is_refused=True),
}


@pytest.fixture
def applying(mysql_family: Server, request: pytest.FixtureRequest) -> Iterator[Applying]:
    with applying_at(mysql_family, request.node.name) as made:
        yield made


@dataclass
class Seats:
    """The table, with so many copies of the rows of a case."""

    applying: Applying
    many: int
    of: TargetTable = field(init=False)

    def __post_init__(self) -> None:
        self.of = self.applying.create("seats", SEATS, COLUMNS)

    def fill(self) -> list[Seat]:
        self.applying.database.execute("DELETE FROM seats")
        found = [copy(seat, n) for n in range(self.many) for seat in BEFORE.values()]
        self.applying.merge(TableNet(self.of, inserts=rows(self.of, tuple(COLUMNS), *found)))
        return sorted(found)

    def there(self) -> list[Seat]:
        return self.applying.rows("SELECT id, u, v, a, b, w FROM seats ORDER BY id")

    def after(self, case: Case) -> list[Seat]:
        left = [became(number, case) for number in BEFORE if number not in case.gone]
        return sorted(copy(seat, n) for n in range(self.many) for seat in (*left, *case.new))

    def net(self, case: Case, are_whole: bool) -> TableNet:
        new = [copy(seat, n) for n in range(self.many) for seat in case.new]
        return TableNet(
            self.of,
            deletes=keys(self.of, *(key + n * STEP for n in range(self.many) for key in case.gone))
            if case.gone
            else None,
            updates=tuple(self._updates(case, are_whole)),
            inserts=rows(self.of, tuple(COLUMNS), *new) if new else None,
        )

    def _updates(self, case: Case, are_whole: bool) -> Iterator[Updates]:
        """Rows that move first, then those that stay; of partial ones those that set the same columns together."""
        patterns: dict[tuple[str, ...], list[int]] = {}
        for number, sets in case.changed.items():
            names = tuple(name for name in COLUMNS if (are_whole and (name != "id" or "id" in sets)) or name in sets)
            patterns.setdefault(names, []).append(number)
        for names, numbers in sorted(patterns.items(), key=lambda one: "id" not in one[0]):
            pairs = [(n, number) for n in range(self.many) for number in numbers]
            lines = [
                [dict(zip(COLUMNS, copy(became(number, case), n), strict=True))[name] for name in names]
                for n, number in pairs
            ]
            old = [number + n * STEP for n, number in pairs]
            yield updates(self.of, old, names, *lines, moves="id" in names, contends=True)


def became(number: int, case: Case) -> Seat:
    seat = dict(zip(COLUMNS, BEFORE.get(number, (number, "x", 0, 7, 99, "x")), strict=True))
    return tuple({**seat, **case.changed.get(number, {})}.values())


def copy(seat: Seat, n: int) -> Seat:
    """The row in the n-th copy: no value of it is there in another one."""
    id, u, v, a, b, w = seat
    return (
        id + n * STEP,
        None if u is None else f"{u[0]}{n}{u[1:]}",
        None if v is None else v + n * STEP,
        a,
        b + n * STEP,
        f"{w[0]}{n:05}{w[1:]}",
    )


def merge(applying: Applying, net: TableNet, by_executor: bool) -> None:
    if not by_executor:
        applying.merge(net)
        return
    with closing(MysqlStager(applying.endpoint, ValueRules())) as stager:
        (staged,) = stager.stage(applying.job, [net])
    applying.do(lambda writer: writer.merge_staged(staged))


@SINCE_56
@SIZES
@pytest.mark.parametrize("by_executor", [False, True], ids=["sent", "staged"])
@pytest.mark.parametrize("are_whole", [False, True], ids=["parts", "whole"])
@pytest.mark.one_case(
    "*-few", "mysql-parts-staged-many", "mysql-whole-sent-many", "mariadb-whole-staged-many", "mariadb-parts-sent-many"
)
def test_rule_08_pitfall_10_pitfall_11_what_goes_round_ends_as_at_the_source(
    applying: Applying, many: int, are_whole: bool, by_executor: bool
) -> None:
    seats = Seats(applying, many)
    for name, case in CASES.items():
        before = seats.fill()
        if case.is_refused:
            with pytest.raises(Conflict):
                merge(applying, seats.net(case, are_whole), by_executor)
            assert seats.there() == before, name
        else:
            merge(applying, seats.net(case, are_whole), by_executor)
            assert seats.there() == seats.after(case), name


OWN = "own INT AUTO_INCREMENT UNIQUE, at TIMESTAMP NOT NULL DEFAULT '2001-02-03 04:05:06' ON UPDATE CURRENT_TIMESTAMP"


@SINCE_56
@SIZES
def test_rule_08_what_the_job_does_not_write_goes_with_rows_that_contend(applying: Applying, many: int) -> None:
    """The change brings all that the job has of the rows, and not all that is in them."""
    of = applying.create("t", f"id INT PRIMARY KEY, u INT UNIQUE, {OWN}", {"id": INT, "u": INT})
    count = many + 1
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((n, n) for n in range(count)))))
    before = dict(applying.rows("SELECT u, own FROM t"))
    shifted = [((n + 1) % count, n) for n in range(count)]
    applying.merge(TableNet(of, updates=(updates(of, range(count), ("id", "u"), *shifted, moves=True, contends=True),)))
    assert dict(applying.rows("SELECT u, own FROM t")) == before
    assert sorted(applying.rows("SELECT id, u FROM t")) == sorted(shifted)
    assert applying.rows("SELECT DISTINCT CAST(at AS CHAR) FROM t") == [("2001-02-03 04:05:06",)]


@SINCE_56
@SIZES
def test_rule_08_a_key_that_does_not_change_keeps_its_spelling(applying: Applying, many: int) -> None:
    of = applying.create("t", f"id {FOLDED} PRIMARY KEY, u INT UNIQUE", {"id": TEXT, "u": INT})
    count = many + 1
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((f"K{n}", n) for n in range(count)))))
    turned = updates(
        of, [f"k{n} " for n in range(count)], ("u",), *(((n + 1) % count,) for n in range(count)), contends=True
    )
    applying.merge(TableNet(of, updates=(turned,)))
    assert sorted(applying.rows("SELECT id, u FROM t")) == sorted((f"K{n}", (n + 1) % count) for n in range(count))


@SINCE_56
@SIZES
def test_rule_08_rows_that_contend_are_not_replaced_where_a_trigger_would_see_it(applying: Applying, many: int) -> None:
    of = applying.create("t", "id INT PRIMARY KEY, u INT UNIQUE", {"id": INT, "u": INT})
    count = many + 1
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((n, n) for n in range(count)))))
    applying.database.execute("CREATE TRIGGER sees BEFORE DELETE ON t FOR EACH ROW SET @seen = OLD.id")
    turned = updates(of, range(count), ("u",), *(((n + 1) % count,) for n in range(count)), contends=True)
    with pytest.raises(Conflict, match=CANNOT_PARK):
        applying.merge(TableNet(of, updates=(turned,)))
    assert sorted(applying.rows("SELECT id, u FROM t")) == [(n, n) for n in range(count)]


@SINCE_56
@SIZES
def test_rule_08_rows_that_contend_and_are_referred_to_stay(mysql_family: Server, many: int) -> None:
    """Children whose key would go with the row that leaves."""
    with applying_at(mysql_family, f"referred-{many}") as made:
        applying = Applying(made.database, bypass=False, owner="another", job=f"{made.job[-30:]}-asks")
        of = applying.create("t", "id INT PRIMARY KEY, u INT UNIQUE", {"id": INT, "u": INT})
        applying.database.execute(
            "CREATE TABLE c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE)"
        )
        count = many + 1
        applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((n, n) for n in range(count)))))
        applying.database.execute("INSERT INTO c SELECT id FROM t")
        turned = updates(of, range(count), ("u",), *(((n + 1) % count,) for n in range(count)), contends=True)
        applying.merge(TableNet(of, updates=(turned,)))
        applying.writer.close()
        assert sorted(made.rows("SELECT id, u FROM t")) == [(n, (n + 1) % count) for n in range(count)]
        assert made.rows("SELECT COUNT(*) FROM c") == [(count,)]


@contextmanager
def beside_hidden_children(server: Server, name: str) -> Iterator[tuple[Applying, TargetTable, Database]]:
    """A writer whose keys act, a table of it, and a database whose table `c` refers to that and which its user does not see."""
    with applying_at(server, name) as made:
        hidden, user = create_database(server, "hidden"), unique_name("u")[:30]
        own = made.database.name
        try:
            of = made.create("t", "id INT PRIMARY KEY, u INT UNIQUE, w INT", {"id": INT, "u": INT, "w": INT})
            hidden.execute(
                f"CREATE TABLE c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES {own}.t (id) ON DELETE CASCADE)",
                f"CREATE USER {user}@'%' IDENTIFIED BY 'p'",
                *(f"GRANT ALL ON {place}.* TO {user}@'%'" for place in (own, "anabranch")),
            )
            account = (user, "p")
            applying = Applying(
                made.database, bypass=False, owner="another", job=f"{made.job[-30:]}-asks", account=account
            )
            with closing(connect(applying.endpoint, "looks")) as session:
                assert not ask(session, REFERRED, own, "t")
            try:
                yield applying, of, hidden
            finally:
                applying.writer.close()
        finally:
            hidden.execute(f"DROP USER {user}@'%'")
            drop_database(hidden)


@SIZES
def test_rule_08_children_that_our_user_does_not_see_stay(mysql_family: Server, many: int) -> None:
    """A key of a table on which the user has no right is in no catalogue that it reads, and acts all the same."""
    with beside_hidden_children(mysql_family, f"hidden-{many}") as (applying, of, hidden):
        count = many + 1
        applying.merge(TableNet(of, inserts=rows(of, ("id", "u", "w"), *((n, n, n) for n in range(count)))))
        hidden.execute(f"INSERT INTO c SELECT id FROM {applying.database.name}.t")
        for by, names in enumerate((("u", "w"), ("u",)), start=1):  # whole rows, and parts of them
            values = [((n + by) % count, n)[: len(names)] for n in range(count)]
            for by_executor in (False, True):
                turned = updates(of, range(count), names, *values, contends=True)
                merge(applying, TableNet(of, updates=(turned,)), by_executor)
                assert hidden.query("SELECT COUNT(*) FROM c") == [(count,)], (names, by_executor)
            assert sorted(applying.rows("SELECT id, u FROM t")) == [(n, (n + by) % count) for n in range(count)]
        gone = TableNet(of, deletes=keys(of, 0))
        applying.merge(gone)  # keys act again: what the source removes takes along what refers to it, as ever
        assert hidden.query("SELECT COUNT(*) FROM c") == [(many,)]


def test_rule_08_children_that_our_user_does_not_see_stay_where_a_single_row_is_in_the_way(
    mysql_family: Server,
) -> None:
    with beside_hidden_children(mysql_family, "hidden-one") as (applying, of, hidden):
        applying.merge(TableNet(of, inserts=rows(of, ("id", "u", "w"), (1, 1, 1), (2, 2, 2))))
        hidden.execute("INSERT INTO c VALUES (1), (2)")
        turned = [RowChange(of, UPDATE, {"id": id}, {"u": u}) for id, u in (("1", "2"), ("2", "1"))]
        applying.do(lambda writer: [writer.change(row) for row in turned])
        assert sorted(applying.rows("SELECT id, u FROM t")) == [(1, 2), (2, 1)]
        assert hidden.query("SELECT COUNT(*) FROM c") == [(2,)]


@SINCE_56
@SIZES
@pytest.mark.parametrize("by_executor", [False, True], ids=["sent", "staged"])
def test_rule_08_a_newer_row_is_not_replaced(applying: Applying, many: int, by_executor: bool) -> None:
    of = applying.create("t", "id INT PRIMARY KEY, u INT UNIQUE, n INT", {"id": INT, "u": INT, "n": INT})
    count = many + 1
    names, before = ("id", "u", "n"), [(n, n, 5) for n in range(count)]
    applying.merge(TableNet(of, inserts=rows(of, names, *before)))
    after = [(n, (n + 1) % count, 6) for n in range(count)]
    turned = updates(of, range(count), ("u", "n"), *(line[1:] for line in after), contends=True)
    aged = replace(turned, ages=pa.chunked_array([pa.array([6] * count, turned.values.column("n").type)]))
    applying.database.execute(f"UPDATE t SET n = 7 WHERE id = {many}")
    with pytest.raises(Conflict, match="newer by n"):
        merge(applying, TableNet(of, updates=(aged,), newest_by="n"), by_executor)
    assert sorted(applying.rows("SELECT id, u FROM t")) == [(n, n) for n in range(count)]
    applying.database.execute("UPDATE t SET n = 5")
    merge(applying, TableNet(of, updates=(aged,), newest_by="n"), by_executor)
    assert sorted(applying.rows("SELECT id, u, n FROM t")) == after
