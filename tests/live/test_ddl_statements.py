"""Every statement of tests/ddl/executed/mysql.txt, run at a source under a job that follows all kinds of changes: what becomes
of the target's table is what the file says, rows of both ends agree before and behind it, and the table is defined as a
load would define it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from anabranch.model.column_changes import OF_TABLES, ColumnChange
from anabranch.model.ddl_changes import Outcome
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.ddl_statements import Case, cases
from rigs.job_here import JobHere
from rigs.scenario import Scenario, ticked
from rigs.scenario_mysql_target import MysqlToMysql

PAIRS = [("mariadb", "postgresql"), ("mysql", "postgresql"), ("mysql", "mariadb"), ("mariadb", "mysql")]
APPLY = "[ddl]\n" + "".join(f'{kind} = "apply"\n' for kind in ColumnChange if kind not in OF_TABLES)
_CAST = re.compile(r"::[a-z ]+(\(\d+(,\d+)?\))?$")
ANY_MODE = "SET SESSION sql_mode = ''"  # a row gets implicit defaults
# A value of each type, for a row behind the statement.
VALUES = {
    "date": "'2031-05-06'", "time": "'01:02:03'", "datetime": "'2031-05-06 07:08:09'", "timestamp": "'2031-05-06 07:08:09'",
    "year": "2031", "json": "'{\"a\": [1, null]}'", "enum": "1", "set": "3", "bit": "1", "decimal": "-2.5", "float": "-0.5",
    "double": "-1.5e300", "varchar": "'ü'", "char": "'z'", "text": "'long ü'", "tinytext": "'long'", "mediumtext": "'long'",
    "longtext": "'long'", "blob": "x'00ff'", "tinyblob": "x'00ff'", "mediumblob": "x'00ff'", "longblob": "x'00ff'",
    "binary": "x'00ff'", "varbinary": "x'00ff'",
}  # fmt: skip
COLUMNS = {
    "postgresql": """SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale,
        datetime_precision, is_nullable, column_default, collation_name
        FROM information_schema.columns WHERE table_schema = %s AND table_name = %s""",
    "mysql": """SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, COLLATION_NAME, EXTRA
        FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s""",
}


SLICE = 25  # one of so many statements, where there is no time for all
ALL = [
    *(pytest.param(pair, SLICE, id="-to-".join(pair)) for pair in (PAIRS[0], PAIRS[2])),
    *(pytest.param(pair, 1, id=f"all-{'-to-'.join(pair)}", marks=pytest.mark.long) for pair in PAIRS),
]


@pytest.mark.parametrize(("pair", "every"), ALL)
def test_statements_have_their_outcomes(
    pair: tuple[str, str],
    every: int,
    request: pytest.FixtureRequest,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> None:
    source, target = map(request.getfixturevalue, pair)
    run_all(cases("mysql", pair[0])[::every], source_database(source), target, tmp_path)


def run_all(every: list[Case], source: Database, server: Server, directory: Path) -> None:
    target = create_database(server, "statements")
    kind = Scenario if server.name == "postgresql" else MysqlToMysql
    here = JobHere(kind(source, target, directory, name=unique_name("job")))
    here.made.write_job(APPLY)
    for case in every:
        source.execute(f"CREATE TABLE {case.table} (id INT PRIMARY KEY, {case.columns}) {case.rest}", *_rows(case))
    here.load()
    here.apply(is_built=True)
    refused: dict[str, str] = {}
    for case in every:
        source.execute(f"INSERT INTO {case.table} (id) VALUES (11)")
        try:
            source.execute(*case.statements)
        except pymysql.err.MySQLError as error:
            refused[case.told] = str(error)
        with suppress(pymysql.err.ProgrammingError, pymysql.err.OperationalError):  # another name, or none
            source.execute(ANY_MODE, *_behind(case))
    assert not refused, "the source refuses\n" + "\n".join(f"{told} -> {why}" for told, why in refused.items())
    here.stream()
    for case in every:
        _fill(source, case)
    here.stream()
    found = dict(_found(here, every))
    wrong = {case.told: found[case.table] for case in every if found[case.table][0] != case.outcome}
    assert not wrong, "\n".join(f"{told} -> {outcome}" for told, outcome in wrong.items())
    with _defined_anew(here, target) as fresh:
        for case in every:
            if found[case.table][0] != "parked":
                here.made.assert_identical(case.table)
                assert _columns(target, here.made.there, case) == _columns(*fresh, case), case.told
    here.job.drop(execute=True)
    drop_database(target)


def _rows(case: Case) -> Iterator[str]:
    for key in (1, 2, 3):
        yield f"INSERT INTO {case.table} (id) VALUES ({key})"
    yield f"UPDATE {case.table} SET v = 'one', m = 1, s = 1, b = x'01', f = 1.5 WHERE id = 1"


def _behind(case: Case) -> Iterator[str]:
    yield f"INSERT INTO {case.table} (id) VALUES (21)"
    yield f"UPDATE {case.table} SET id = 22 WHERE id = 2"
    yield f"DELETE FROM {case.table} WHERE id = 3"


def _fill(source: Database, case: Case) -> None:
    """Give every column a value, in a row from before the statement and in one from behind it."""
    query = (
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        " AND COLUMN_NAME NOT LIKE 'id%%' AND EXTRA NOT LIKE '%%GENERATED%%'"
    )
    columns = source.query(query, [source.name, case.table])
    values = ", ".join(f"{ticked(name)} = {VALUES.get(type, '1')}" for name, type in columns)
    if values:
        with suppress(pymysql.err.IntegrityError, pymysql.err.OperationalError):  # a unique key, no such column
            source.execute(ANY_MODE, f"UPDATE {case.table} SET {values} WHERE id = 1")
            source.execute(ANY_MODE, f"UPDATE {case.table} SET {values} WHERE id = 21")


def _found(here: JobHere, every: list[Case]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each table with its outcome, and the reason where it is parked."""
    states, notes = here.made.states(), here.job.ddl_changes()
    for case in every:
        told = [one for one in notes if one.source.name == case.table]
        if states.get(case.table) != "streaming":
            yield case.table, ("parked", "; ".join(one.why for one in told))
        else:
            altered = any(one.outcome is Outcome.ALTERED for one in told)
            yield case.table, ("altered" if altered else "same", "")


@contextmanager
def _defined_anew(here: JobHere, target: Database) -> Iterator[tuple[Database, str]]:
    """A schema in which the tables are as a load would define them now."""
    if target.server.name == "postgresql":
        other, schema = create_database(target.server, "anew"), "public"
    else:
        other = create_database(target.server, "anew")
        schema = other.name
    steps = [step.sql for step in here.job.schema_script().steps if step.sql and step.table is not None]
    for sql in steps:
        if sql.startswith("CREATE TABLE"):
            other.execute(sql.replace(f"`{here.made.there}`.", f"`{schema}`."))
    yield other, schema
    drop_database(other)


def _columns(database: Database, schema: str, case: Case) -> dict[str, tuple[Any, ...]]:
    kind = "postgresql" if database.server.name == "postgresql" else "mysql"
    rows = database.query(COLUMNS[kind], [schema, case.table])
    return {str(name): tuple(map(_plain, facts)) for name, *facts in rows}


def _plain(fact: Any) -> Any:
    """Return a default without its type: that of a column which was widened keeps the former one, and is cast."""
    return _CAST.sub("", fact).strip("'") if isinstance(fact, str) else fact
