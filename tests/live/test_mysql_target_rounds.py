"""Value round trips to a MySQL or MariaDB, whole jobs between real servers: values that hypothesis draws are at the source
before the job begins, so that the load brings them, and come again behind it, by insert and by update, through capture and
apply. Both servers are asked for texts of what they have. What the table of types does not take parks its table, and
nothing else is there.

What does not live here: the values (rigs/drawn_*.py), one column without a job (test_mysql_target_values.py), a PostgreSQL as
the target (test_mysql_values.py, test_torture_values.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.contracts import ValueRules
from anabranch.errors import RowRefused, TablesParked
from anabranch.model.datatype import Fidelity, Kind, LogicalType
from anabranch.model.schema import Column
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs import drawn_mysql, drawn_postgresql
from rigs.drawn_values import Drawn, draw
from rigs.job_here import JobHere
from rigs.scenario import UTC_AT_MYSQL
from rigs.scenario_mysql_target import AtMysql, job_at_mysql

Make = Callable[[Server], Database]
PAIRS = [
    ("logical_postgresql", "mysql"),
    ("logical_postgresql", "mariadb"),
    ("mysql", "mysql"),
    ("mysql", "mariadb"),
    ("mariadb", "mysql"),
    ("mariadb", "mariadb"),
]
BY_PAIR = pytest.mark.parametrize("source, target", PAIRS, ids=[f"{one} to {other}" for one, other in PAIRS])
NUMBERS = '[types.map]\n"numeric()" = "longtext"\n'
LOOSE = "SET sql_mode = 'ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'"
BESIDE = 12  # types in one table
AT_ONCE = 100  # rows in one statement
LATER = 100_000  # the id of the first row that comes behind the load


@contextmanager
def pair(source: Server, target: Server, make: Make, directory: Path, text: str, *made: str) -> Iterator[JobHere]:
    """Make a job between a new database with these tables and a server."""
    database = make(source)
    database.execute(*made)
    with job_at_mysql(database, target, directory / "job", is_quick=True) as job:
        job.write_job((NUMBERS if source.name == "postgresql" else "") + text)
        yield JobHere(job)


def packed(types: Sequence[Drawn]) -> list[Sequence[Drawn]]:
    """Divide types among tables: the one of column c3 of table t1 is `packed(types)[1][3]`."""
    return [types[first : first + BESIDE] for first in range(0, len(types), BESIDE)]


def tables(types: Sequence[Drawn]) -> list[str]:
    """Statements that make the tables of all types."""
    setup = chain.from_iterable(one.setup for one in types)
    columns = [", ".join(f"c{n} {one.native}" for n, one in enumerate(some)) for some in packed(types)]
    return [*setup, *(f"CREATE TABLE t{n} (id int PRIMARY KEY, {one})" for n, one in enumerate(columns))]


def inserts(types: Sequence[Drawn], values: dict[str, list[str]], first: int) -> Iterator[str]:
    """Statements that insert each value of each type, and NULL."""
    for number, some in enumerate(packed(types)):
        rows = list(zip(*(values[one.native] for one in some), strict=True))
        texts = [f"({first + place}, {', '.join(row)})" for place, row in enumerate([*rows, ["NULL"] * len(some)])]
        for start in range(0, len(texts), AT_ONCE):
            yield f"INSERT INTO t{number} VALUES {', '.join(texts[start : start + AT_ONCE])}"


def shifts(types: Sequence[Drawn], is_postgresql: bool) -> Iterator[str]:
    """Statements by which rows that the load has brought get the values of others."""
    for number, some in enumerate(packed(types)):
        every = [f"c{n} = b.c{n}" for n in range(len(some))]
        if is_postgresql:
            yield f"UPDATE t{number} a SET {', '.join(every)} FROM t{number} b WHERE b.id = a.id + {LATER} + 2"
        else:
            named = ", ".join(f"a.{one}" for one in every)
            yield f"UPDATE t{number} a JOIN t{number} b ON b.id = a.id + {LATER} + 2 SET {named}"


@pytest.mark.one_case("few-logical_postgresql to mariadb", "few-mysql to mariadb")
@BY_PAIR
@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.long)], ids=["few", "many"])
def test_every_value_arrives_by_the_load_and_by_the_log(
    source: str, target: str, count: int, request: pytest.FixtureRequest, source_database: Make, tmp_path: Path
) -> None:
    """Ids of the load begin at 0, those of the log at LATER."""
    here, there = request.getfixturevalue(source), request.getfixturevalue(target)
    is_postgresql = here.name == "postgresql"
    types = list(drawn_postgresql.drawn(there.name) if is_postgresql else drawn_mysql.drawn(here.name, there.name))
    values = {one.native: drawn(one, count) for one in types}
    with pair(here, there, source_database, tmp_path, "", *tables(types), *inserts(types, values, 0)) as job:
        job.load()
        job.stream()
        found = list(differences(job.made, types))
        job.made.source.execute(*inserts(types, values, LATER), *shifts(types, is_postgresql))
        job.stream()
        found += differences(job.made, types)
        assert not found, "\n".join(found)
        assert set(job.made.states().values()) == {"streaming"}
        verified = job.verify()
        assert verified.identical, [one.sample for one in verified.tables if not one.identical]


def drawn(one: Drawn, count: int) -> list[str]:
    """Return so many values, some of them twice where hypothesis knows no more."""
    return list(islice(cycle(draw(one.values, count)), count))


def differences(made: AtMysql, types: Sequence[Drawn]) -> Iterator[str]:
    """Tell what differs in the column of each type, in the servers' own words."""
    is_postgresql = made.source.server.name == "postgresql"
    options = {"options": "-c TimeZone=UTC"} if is_postgresql else {"init_command": UTC_AT_MYSQL}
    for number, some in enumerate(packed(types)):
        for place, one in enumerate(some):
            query = f"SELECT id, {{}} FROM (SELECT id, c{place} AS v FROM {{}}) AS one"
            here = dict(made.source.query(query.format(one.here, f"t{number}"), **options))
            relation = f"`{made.there}`.t{number}"
            there = dict(made.target.query(query.format(one.there, relation), init_command=UTC_AT_MYSQL))
            assert here, f"{one.native}: no row"
            every = sorted(here.keys() | there.keys())
            wrong = [(id, here.get(id), there.get(id, "no row")) for id in every if not same(one, here, there, id)]
            if wrong:
                shown = "; ".join(f"{id}: {ours!r} became {theirs!r}" for id, ours, theirs in wrong[:4])
                yield f"{one.native}: {len(wrong)} of {len(here)}: {shown}"


def same(one: Drawn, here: dict[int, Any], there: dict[int, Any], id: int) -> bool:
    if id not in here or id not in there:
        return False
    ours, theirs = text_of(here[id]), text_of(there[id])
    return ours == theirs if ours is None or theirs is None else one.same(ours) == one.same(theirs)


def text_of(value: str | bytes | float | None) -> str | None:
    if isinstance(value, bytes):
        return value.decode()
    return repr(value) if isinstance(value, float) else value


@pytest.mark.one_case("mariadb to mysql")
@BY_PAIR
def test_a_value_that_the_table_of_types_does_not_take_parks_its_table_and_is_not_changed(
    source: str, target: str, request: pytest.FixtureRequest, source_database: Make, tmp_path: Path
) -> None:
    """Tables with even numbers have it before the load, the others behind it; each has a value that arrives, too."""
    here, there = request.getfixturevalue(source), request.getfixturevalue(target)
    is_postgresql = here.name == "postgresql"
    cases = drawn_postgresql.stopping(there.name) if is_postgresql else drawn_mysql.STOPPING
    twice = [case for case in cases for _ in range(2)]
    made = [f"CREATE TABLE t{n} (id int PRIMARY KEY, v {type})" for n, (type, _) in enumerate(twice)]
    wrong = [f"INSERT INTO t{n} VALUES (7, {value})" for n, (_, value) in enumerate(twice)]
    loose = [] if is_postgresql else [LOOSE]
    nulls = [f"INSERT INTO t{n} VALUES (1, NULL)" for n in range(len(twice))]
    text = '[apply]\non_error = "park"\n'
    with pair(here, there, source_database, tmp_path, text, *made, *loose, *nulls, *wrong[::2]) as job:
        with pytest.raises(TablesParked):
            job.load()
        job.stream()
        job.made.source.execute(*loose, *wrong[1::2])
        job.stream()
        states = job.made.states()
        for n, (type, value) in enumerate(twice):
            what = f"{'log' if n % 2 else 'load'}: {type} {value}"
            query = f"SELECT id, CAST(v AS CHAR) FROM `{job.made.there}`.t{n} WHERE id <> 1"
            assert job.made.target.query(query) == [], what
            assert states[f"t{n}"] == "parked", what
            reason = job.made.reason(f"t{n}")
            assert re.search(r"\bcolumn\b.*\bv\b", reason) and re.search("id ?= ?7", reason), (what, reason)


def test_a_double_at_a_mariadb_is_exact_but_for_the_sign_of_zero(
    mysql: Server, mariadb: Server, source_database: Make
) -> None:
    """A MySQL keeps the sign, a MariaDB does not. The fidelity of the type must not park a table that gets such a column."""
    seen = {}
    for server in (mysql, mariadb):
        database = source_database(server)
        database.execute("CREATE TABLE t (f float, d double)", "INSERT INTO t VALUES ('-0', '-0')")
        seen[server.name] = database.query("SELECT CONCAT(f), CONCAT(d), f = 0, d = 0 FROM t")
    assert seen == {"mysql": [("-0", "-0", 1, 1)], "mariadb": [("0", "0", 1, 1)]}
    for name, kind in (("float", Kind.FLOAT32), ("double", Kind.FLOAT64)):
        type = LogicalType(kind)
        fit = MysqlTypes("mariadb").column_fit(Column("v", type, name), type, ValueRules())
        assert fit.fidelity is Fidelity.EXACT and "-0.0" in fit.reason and not fit.changes_values


@pytest.mark.parametrize("source, target", PAIRS[2:], ids=[f"{one} to {other}" for one, other in PAIRS[2:]])
def test_a_nul_in_text_arrives_by_the_load_and_by_the_log(
    source: str, target: str, request: pytest.FixtureRequest, source_database: Make, tmp_path: Path
) -> None:
    """It is in a key, also as the first byte of what is read, in texts that the source's server converts, in one that it does
    not (gbk), at the end and alone. What the job file strips is gone."""
    here, there = request.getfixturevalue(source), request.getfixturevalue(target)
    columns = (
        "k varchar(20), v varchar(20), l varchar(9) CHARACTER SET latin1, g varchar(9) CHARACTER SET gbk, t longtext"
    )
    raw = columns.replace(" CHARACTER SET gbk", "")
    made = [f"CREATE TABLE t ({columns}, PRIMARY KEY (k))", f"CREATE TABLE raw ({raw}, PRIMARY KEY (k))"]
    nul, cell = "_utf8mb4 x'00'", "_utf8mb4 x'61005C000A62F09F988000'"
    wide = f"REPEAT({cell}, 1000)"

    def rows(name: str) -> list[str]:
        return [
            f"INSERT INTO t VALUES (CONCAT('{name}', {nul}, 'x'), {cell}, x'E400', _gbk x'B0A100', {wide})",
            f"INSERT INTO t VALUES (CONCAT('{name}', {nul}, 'y'), {nul}, {nul}, {nul}, {nul})",
            f"INSERT INTO t (k, l) VALUES (CONCAT({nul}, '{name}a'), 'first')",
            f"INSERT INTO raw (k, v, l, g) VALUES (CONCAT('{name}', {nul}, 'x'), {cell}, x'E400', {nul})",
            f"INSERT INTO raw (k, l) VALUES (CONCAT({nul}, '{name}a'), 'first')",
        ]

    def seen(database: Database, schema: str) -> list[Any]:
        shown = "HEX(k), HEX(v), HEX(l), HEX(g)"
        found = [database.query(f"SELECT {shown} FROM `{schema}`.{table} ORDER BY k") for table in ("t", "raw")]
        return [*found, database.query(f"SELECT HEX(k), HEX(t) FROM `{schema}`.t ORDER BY k")]

    with pair(here, there, source_database, tmp_path, "", *made, *rows("a")) as job:
        job.load()
        here_now = seen(job.made.source, job.made.schema)
        assert len(here_now[0]) == 3 and seen(job.made.target, job.made.there) == here_now
        job.made.source.execute(*rows("b"), f"UPDATE t SET v = CONCAT({nul}, v, {nul}) WHERE k LIKE 'a%'")
        job.stream()
        here_now = seen(job.made.source, job.made.schema)
        assert len(here_now[0]) == 6 and seen(job.made.target, job.made.there) == here_now
        assert job.verify().identical
    with pair(here, there, source_database, tmp_path / "2", '[types]\nnul = "strip"\n', *made, *rows("a")) as job:
        job.load()
        there_now = job.made.target.query(f"SELECT k, HEX(l) FROM `{job.made.there}`.t ORDER BY k")
        assert there_now == [("aa", b"first".hex().upper()), ("ax", "E4"), ("ay", "")]


@pytest.mark.parametrize("source", ["logical_postgresql", "mariadb"])
def test_numbers_in_json_that_a_mysql_changes_are_declared_before_and_told_behind(
    source: str, mysql: Server, request: pytest.FixtureRequest, source_database: Make, tmp_path: Path
) -> None:
    """Preflight names the column, and just the rows whose numbers are others are different. As text nothing changes."""
    kept = ("18446744073709551615", "-9223372036854775808", "0.1", "1.50", "1e3", "-0.0", "123456789012345678")
    changed = ("18446744073709551616", "-9223372036854775809", "12345678901234567890123456789", "0.1234567890123456789")
    here = request.getfixturevalue(source)
    made = "CREATE TABLE t (id int PRIMARY KEY, v json)"
    inserts = {
        first: [f"INSERT INTO t VALUES ({first + n}, '[{one}]')" for n, one in enumerate(kept)] for first in (0, 50)
    }
    others = {
        first: [f"INSERT INTO t VALUES ({first + n}, '[{one}]')" for n, one in enumerate(changed)] for first in (20, 70)
    }
    beyond = "INSERT INTO t VALUES (99, '[1e400]')"
    with pair(here, mysql, source_database, tmp_path / "1", "", made, *inserts[0], *others[20]) as job:
        told = [one for one in job.job.preflight().results if "stores numbers beyond 64 bits as doubles" in one.message]
        assert len(told) == 1 and any(name.endswith("t.v") for name in (*told[0].names, told[0].message)), told
        job.load()
        job.made.source.execute(*inserts[50], *others[70])
        job.stream()
        (found,) = [one for one in job.verify().tables if one.source.endswith(".t")]
        wrong = {int(one.key["id"] or "") for one in found.sample}
        assert (found.different, found.missing, found.extra) == (8, 0, 0)
        assert wrong == {20, 21, 22, 23, 70, 71, 72, 73}
        job.made.source.execute(beyond)
        with pytest.raises(RowRefused, match=r"Number too big to be stored in double.*id = 99"):
            job.stream()
    text = '[target.options]\njson = "text"\n'
    with pair(here, mysql, source_database, tmp_path / "2", text, made, *inserts[0], *others[20], beyond) as job:
        job.load()
        job.made.source.execute(*inserts[50], *others[70])
        job.stream()
        assert job.verify().identical
