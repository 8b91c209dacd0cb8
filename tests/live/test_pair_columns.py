"""Columns that come to a table of a pair while both sites write it (`[pair] ddl_from`): whatever is under way, both sites
become equal, in the column, too (K23)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.errors import ConfigError, StoppedByChange
from anabranch.failpoints import FailpointReached
from anabranch.model.checks import CheckVerdict
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from rigs.both_ways import End, Way, settle, writing

SITES = [
    ("logical_postgresql", "logical_postgresql"),
    pytest.param(("logical_postgresql", "mariadb"), marks=pytest.mark.long),
    pytest.param(("mysql", "logical_postgresql"), marks=pytest.mark.long),
    ("mariadb", "mysql"),
]
COLUMNS = "id, v, changed, c"
FAULTS = (
    "",
    "apply.altering",
    "apply.altered.apart",
    "apply.altered",
    "apply.pair.stands",
    "apply.pair.filled",
    "apply.commit",
    "apply.committed",
    "apply.one",
)
Pair = tuple[Way, Way]


@pytest.fixture(params=SITES, ids=" and ".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two jobs that have begun; columns are added at the site `one`, which the first job reads."""
    made = [create_database(request.getfixturevalue(fixture), "site") for fixture in request.param]
    one, other = map(End, made)
    for end in (one, other):
        time = "timestamp(6)" if end.is_postgresql else "datetime(6)"
        end.database.execute(f"CREATE TABLE t (id int PRIMARY KEY, v varchar(80), changed {time} NOT NULL)")
        if end.is_postgresql:
            end.database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    rows = ", ".join(f"({key}, 'as it was', {at(1)})" for key in range(1, 9))
    one.database.execute(f"INSERT INTO t VALUES {rows}")
    out, back = Way(one, other, tmp_path, name=unique_name("out")), Way(other, one, tmp_path, name=unique_name("back"))
    out.leave_out, back.leave_out = (back.name,), (out.name,)
    out.tables = back.tables = "t*"
    out.write(text=section("one", "other", back.name))
    back.write(text=f'[load]\nexisting = "take_over"\n{section("other", "one", out.name)}')
    try:
        out.here.load()
        out.here.stream(is_built=True)
        back.job.arm()
        settle(out, back)
        yield out, back
    finally:
        failpoints.arm({})
        for way in (out, back):
            way.drop()
        for database in made:
            drop_database(database)


def section(site: str, other: str, twin: str, ddl_from: str = "one") -> str:
    names = f'site = "{site}"\nother = "{other}"\nwinner = "one"\ntwin = "{twin}"\n'
    return f'[pair]\n{names}newest_by = "changed"\nddl_from = "{ddl_from}"\n'


def at(number: int) -> str:
    return f"'2026-01-01 00:00:00.{number:06}'"


def update(way: Way, key: int, newer: int, text: str, more: str = "") -> None:
    way.source.database.execute(f"UPDATE t SET v = '{text}', changed = {at(newer)}{more} WHERE id = {key}")


def carry(way: Way, *faults: str) -> None:
    """Bring what the log has to the target; apply ends itself at each of these failpoints, and starts again."""
    way.here.capture()
    for fault in filter(None, faults):
        failpoints.arm({failpoints.VARIABLE: f"{fault}=raise"})
        try:
            way.here.apply()
        except FailpointReached:
            pass
        finally:
            failpoints.arm({})
    way.here.apply()


def rows(end: End, columns: str = COLUMNS) -> dict[int, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in end.database.query(f"SELECT {columns} FROM t ORDER BY id")}


def parked(*ways: Way) -> list[str]:
    query = "SELECT reason FROM anabranch.table_state WHERE job = %s AND state = 'parked'"
    return [row[0] for way in ways for row in way.target.database.query(query, [way.name])]


@pytest.mark.parametrize("way_first", ["back", "out"])
def test_rule_23_a_column_comes_while_rows_cross(pair: Pair, way_first: str) -> None:
    """Rows by the former definition win over ones that have the column already, lose against them, and meet none; whichever job
    is the first, and wherever each is killed, both sites get the same rows."""
    out, back = pair
    here, there = out.source.database, back.source.database
    here.execute("ALTER TABLE t ADD COLUMN c int DEFAULT 5")
    update(out, 1, 10, "older", ", c = 7")
    update(back, 1, 11, "newer")
    update(out, 2, 11, "newer", ", c = 7")
    update(back, 2, 10, "older")
    update(out, 3, 10, "with it", ", c = 7")
    update(back, 4, 10, "without it")
    here.execute(f"INSERT INTO t VALUES (20, 'older', {at(10)}, 8), (21, 'newer', {at(11)}, 8)")
    there.execute(f"INSERT INTO t VALUES (20, 'newer', {at(11)}), (21, 'older', {at(10)}), (22, 'alone', {at(1)})")
    here.execute("DELETE FROM t WHERE id = 5")
    update(back, 5, 10, "newer than the delete")
    for way in (out, back) if way_first == "out" else (back, out):
        carry(way, *FAULTS)
    update(back, 6, 10, "with it", ", c = 9")
    update(out, 6, 9, "older", ", c = 1")
    there.execute(f"INSERT INTO t VALUES (23, 'with it', {at(10)}, 3)")
    settle(out, back)
    found = rows(out.source)
    assert found == rows(back.source)
    assert not parked(out, back)
    told = {key: (row[0], row[2]) for key, row in found.items()}
    assert told == {
        1: ("newer", 5),
        2: ("newer", 7),
        3: ("with it", 7),
        4: ("without it", 5),
        5: ("newer than the delete", 5),
        6: ("with it", 9),
        7: ("as it was", 5),
        8: ("as it was", 5),
        20: ("newer", 5),
        21: ("newer", 8),
        22: ("alone", 5),
        23: ("with it", 3),
    }


def test_rule_23_a_row_that_meets_its_equal_loses_what_it_lacks(pair: Pair) -> None:
    """Both sites write the same version of a row, and the one without the column writes it once more before it hears of that:
    the quick way would find the version that it expects, and leave the column's value there."""
    out, back = pair
    out.source.database.execute("ALTER TABLE t ADD COLUMN c varchar(20) DEFAULT 'it''s'")
    update(out, 1, 10, "one", ", c = 'mine'")
    update(back, 1, 10, "other")
    update(back, 1, 11, "other, once more")
    carry(back)
    settle(out, back)
    assert rows(out.source) == rows(back.source)
    assert rows(out.source)[1][::2] == ("other, once more", "it's")


def test_a_column_that_comes_at_the_other_site_stops_its_job_by_name(pair: Pair) -> None:
    """Nothing is lost: once the column has come at the declared site, too, both jobs go on."""
    out, back = pair
    back.source.database.execute("ALTER TABLE t ADD COLUMN c int DEFAULT 5")
    update(back, 1, 10, "with it", ", c = 9")
    update(out, 1, 11, "newer, and without it")
    update(back, 2, 10, "with it", ", c = 9")
    back.here.capture()
    for _ in range(2):
        with pytest.raises(StoppedByChange, match=r"c came at this site, and .* columns are added at one") as stopped:
            back.here.apply()
        assert "add it at one" in str(stopped.value.hint)
    carry(out, *FAULTS)
    out.source.database.execute("ALTER TABLE t ADD COLUMN c int DEFAULT 5")
    carry(back, *FAULTS)
    update(out, 3, 10, "with it", ", c = 8")
    carry(out, *FAULTS)
    settle(out, back)
    assert rows(out.source) == rows(back.source)
    assert {key: row[2] for key, row in rows(out.source).items()} == dict.fromkeys(range(1, 9), 5) | {2: 9, 3: 8}
    assert not parked(out, back)


def test_a_column_that_stands_otherwise_stops_the_job(pair: Pair) -> None:
    out, back = pair
    back.source.database.execute("ALTER TABLE t ADD COLUMN c int DEFAULT 6")
    out.source.database.execute("ALTER TABLE t ADD COLUMN c int DEFAULT 5")
    update(out, 1, 10, "with it", ", c = 7")
    with pytest.raises(StoppedByChange, match=r"c has the default .*6.* there, and would have .*5"):
        carry(out)
    back.source.database.execute("ALTER TABLE t DROP COLUMN c")
    out.here.apply()
    assert rows(out.target)[1][2] == 7


@pytest.mark.parametrize("pair", [("mariadb", "mysql")], indirect=True, ids=" and ".join)
def test_a_table_that_is_parked_in_a_pair_is_not_said_to_keep_its_rows(pair: Pair) -> None:
    """Since no command lets it: what the other site has written meanwhile is not in the trail."""
    out, _ = pair
    out.source.database.execute("ALTER TABLE t ADD COLUMN c int NOT NULL")
    carry(out)
    (reason,) = parked(out)
    assert "c is NOT NULL and has no default" in reason and "--keep-rows" not in reason
    with pytest.raises(ConfigError, match="is a table of a pair"):
        out.job.keep_rows(f"{out.source.schema}.t")


@pytest.mark.parametrize("number", range(4))
def test_a_column_that_was_made_before_a_kill_is_known_again(pair: Pair, number: int) -> None:
    """The target prints its default otherwise than it was written."""
    out, back = pair
    defaults = PRINTED["postgresql" if out.source.is_postgresql else "mariadb"]
    out.source.database.execute(f"ALTER TABLE t ADD COLUMN c {defaults[number]}")
    if not out.source.is_postgresql and number in MADE_THERE:  # it would not be made: somebody has
        back.source.database.execute(f"ALTER TABLE t ADD COLUMN c {MADE_THERE[number]}")
    update(out, 1, 10, "with it")
    carry(out, "apply.altering", "apply.altered.apart", "apply.altered")
    assert not parked(out)
    assert rows(out.target, "id, v")[1] == ("with it",)
    if out.source.is_postgresql and out.target.is_postgresql:
        settle(out, back)
        assert rows(out.source) == rows(back.source)


PRINTED = {
    "postgresql": (
        r"varchar(20) DEFAULT 'C:\tmp'",
        r"bytea DEFAULT '\x41'",
        r"varchar(20) DEFAULT E'it''s\n\\'",
        "int[] DEFAULT '{1}'",
    ),
    "mariadb": (
        "varbinary(9) DEFAULT 'A'",
        "json DEFAULT '{}'",
        "float DEFAULT 123.4567",
        "varchar(20) DEFAULT 'it''s'",
    ),
}
MADE_THERE = {0: "varbinary(9) DEFAULT x'41'", 1: "json DEFAULT ('{}')", 2: "float DEFAULT (123.4567 + 0)"}


def test_texts_that_are_the_same_number_are_two_defaults(pair: Pair) -> None:
    out, back = pair
    back.source.database.execute("ALTER TABLE t ADD COLUMN c varchar(9) DEFAULT '1.50'")
    out.source.database.execute("ALTER TABLE t ADD COLUMN c varchar(9) DEFAULT '1.5'")
    update(out, 1, 10, "with it")
    with pytest.raises(StoppedByChange, match=r"c has the default .*1\.50.* there, and would have .*1\.5"):
        carry(out)


def test_rule_23_columns_come_while_users_write_at_both_sites(pair: Pair) -> None:
    """Writers at both sites go on while columns come, one after the other, and while apply is killed. Each writes so often
    for each column: a conflict takes apply longer than it takes them."""
    out, back = pair
    chance, versions, may = random.Random(37), iter(range(100, 1_000_000)), {out.name: 0, back.name: 0}

    def user(way: Way) -> Callable[[int], list[tuple[Database, str]]]:
        def work(count: int) -> list[tuple[Database, str]]:
            if not may[way.name]:
                return []
            may[way.name] -= 1
            names = [row[0] for row in way.source.database.query(_NAMES, [way.source.schema])]
            sets = "".join(f", {name} = {count}" for name in names if name not in ("id", "v", "changed"))
            values = f"v = '{way.name} {count}', changed = {at(next(versions))}{sets if count % 3 else ''}"
            return [(way.source.database, f"UPDATE t SET {values} WHERE id = {count % 5 + 1}")]

        return work

    with writing(user(out), user(back)):
        for name in ("c", "d"):
            may |= dict.fromkeys(may, 12)
            out.source.database.execute(f"ALTER TABLE t ADD COLUMN {name} int DEFAULT 5")
            for way in chance.sample((back, out, back), 3):
                carry(way, chance.choice(FAULTS))
            carry(out, chance.choice(FAULTS))
    settle(out, back)
    columns = f"{COLUMNS}, d"
    assert rows(out.source, columns) == rows(back.source, columns)
    assert not parked(out, back)


_NAMES = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 't'"


def test_both_sites_declare_the_same_site(pair: Pair) -> None:
    out, back = pair
    back.write(text=f'[load]\nexisting = "take_over"\n{section("other", "one", out.name, ddl_from="other")}')
    (told,) = (result for result in back.job.preflight().results if result.check == "pair.twin")
    assert told.verdict is CheckVerdict.FAILED
    assert 'its ddl_from is "one", and had to be "other"' in told.message


LOST = [
    (
        ("logical_postgresql", "mariadb"),
        "boolean DEFAULT true",
        r"boolean is tinyint\(1\) there, which is smallint here",
    ),
    (("logical_postgresql", "mariadb"), "bytea DEFAULT '\\x41'", r"x'41'"),
    (("mysql", "logical_postgresql"), "varbinary(9)", r"varbinary\(9\) is bytea there, which is longblob here"),
    (("mariadb", "mysql"), "varbinary(9) DEFAULT 'A'", r"DEFAULT x'41'"),
    (("mariadb", "mysql"), "longtext DEFAULT 'long'", r"DEFAULT \("),
]


@pytest.mark.parametrize(("pair", "column", "why"), LOST, indirect=["pair"], ids=[one[1] for one in LOST])
def test_a_column_that_does_not_come_back_as_it_went_is_refused_before_it_is_made(
    pair: Pair, column: str, why: str
) -> None:
    """The job stops in front of it, and the other site has nothing of it: nothing meets the twin."""
    out, back = pair
    out.source.database.execute(f"ALTER TABLE t ADD COLUMN c {column}")
    update(back, 1, 10, "goes on")
    update(out, 2, 10, "waits")  # of a PostgreSQL it is a row that tells
    out.here.capture()
    with pytest.raises(StoppedByChange, match=rf"c would not come back from .* as it goes there: .*{why}") as stopped:
        out.here.apply()
    assert "[types.map]" in stopped.value.hint and 'add_column = "park"' in stopped.value.hint
    query = "SELECT count(*) FROM information_schema.columns WHERE table_name = 't' AND column_name = 'c'"
    assert out.target.database.query(f"{query} AND table_schema = '{out.target.schema}'") == [(0,)]
    carry(back)
    assert rows(out.source, "id, v")[1] == ("goes on",)
