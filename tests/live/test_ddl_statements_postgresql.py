"""Every statement of tests/ddl/executed/postgresql.txt, run at a PostgreSQL under a job that follows all kinds of changes of
columns, without notes of ALTER TABLE and with them: what becomes of the target's table is what the file says, it has the
source's columns and rows, and nothing that it lacks goes unsaid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.connectors.postgresql.source.statement_notes import SET_UP, UNDO
from anabranch.model.column_changes import BESIDE_COLUMNS, OF_TABLES, ColumnChange
from anabranch.model.ddl_changes import Outcome
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.altered_postgresql import jobs
from rigs.ddl_statements_postgresql import PostgresCase, cases
from rigs.job_here import JobHere

UNTOLD = OF_TABLES | BESIDE_COLUMNS  # of which a PostgreSQL's log tells nothing
FOLLOWS = [kind for kind in ColumnChange if kind not in UNTOLD]
SLICES = 58  # one of them, where there is no time for all
ALL = [
    pytest.param(False, slice(3, None, SLICES), id="plain"),
    pytest.param(True, slice(20, None, SLICES), id="noted"),
    pytest.param(False, slice(0, None, 2), id="all-plain-even", marks=pytest.mark.long),
    pytest.param(False, slice(1, None, 2), id="all-plain-odd", marks=pytest.mark.long),
    pytest.param(True, slice(0, None, 2), id="all-noted-even", marks=pytest.mark.long),
    pytest.param(True, slice(1, None, 2), id="all-noted-odd", marks=pytest.mark.long),
]
# A value of each type, for a row behind the statement.
VALUES = {
    "smallint": "7", "integer": "7", "bigint": "7", "oid": "7", "numeric": "2", "real": "0.5", "double precision": "-0.5",
    "boolean": "true", "text": "'long ü'", "character varying": "'ü'", "character": "'z'", "name": "'n'", "bytea": "'\\x00ff'",
    "date": "'2031-05-06'", "time without time zone": "'01:02:03'", "timestamp without time zone": "'2031-05-06 07:08:09'",
    "timestamp with time zone": "'2031-05-06 07:08:09+00'", "json": "'{\"a\": [1, null]}'", "jsonb": "'{\"a\": [1, null]}'",
    "uuid": "'00000000-0000-0000-0000-00000000000a'", "money": "3", "inet": "'10.0.0.1'", "interval": "'2 days'",
}  # fmt: skip
COLUMNS = """SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated <> '', c.collname::text,
       format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL),
       (SELECT quote_literal(min(e.enumlabel)) FROM pg_enum e WHERE e.enumtypid = t.oid)
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation c ON c.oid = a.attcollation
 WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""


@pytest.mark.parametrize(("is_noted", "which"), ALL)
def test_rule_17_statements_have_their_outcomes(
    is_noted: bool,
    which: slice,
    request: pytest.FixtureRequest,
    logical_postgresql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> None:
    told = [case for case in cases()[which] if case.outcomes.of(is_noted) != "stops"]
    ddl = "[ddl]\n" + "".join(f'{kind} = "apply"\n' for kind in FOLLOWS)
    with jobs(request, lambda: source_database(logical_postgresql), tmp_path, ddl) as make:
        here = make(
            "postgresql", *(SET_UP if is_noted else ()), *(sql for case in told for sql in _before(case)), "ANALYZE"
        )
        here.looks = True
        _run(here, told)
        found = dict(_found(here, told))
        expected = {case.table: case.outcomes.of(is_noted) for case in told}
        gone_on = [case for case in told if found[case.table][0] != "parked"]
        apart = _apart(here, gone_on, is_noted)
        found |= {
            case.table: ("unsaid", apart.pop(case.told)) for case in gone_on if apart.get(case.told, ("",))[0] == "rows"
        }
        wrong = {case.told: found[case.table] for case in told if found[case.table][0] != expected[case.table]} | apart
        assert not wrong, "\n".join(f"{told} -> {what}" for told, what in wrong.items())
        if "unsaid" not in expected.values():
            assert here.verify().identical
        here.made.source.execute(*UNDO)


def _before(case: PostgresCase) -> Iterator[str]:
    yield from case.made
    for key in (1, 2, 3):
        yield f"INSERT INTO {case.table} {_filled(key, case)}"


def _filled(key: int, case: PostgresCase) -> str:
    is_strict = "v varchar(20) NOT NULL" in " ".join(case.made)
    return f"(id, v) VALUES ({key}, 'v{key}')" if is_strict else f"(id) VALUES ({key})"


def _run(here: JobHere, told: list[PostgresCase]) -> None:
    source, refused = here.made.source, dict[str, str]()
    for case in told:
        _fill(source, case, 1)
        source.execute(f"INSERT INTO {case.table} {_filled(11, case)}")
    here.stream()
    for case in told:
        source.execute(f"INSERT INTO {case.table} {_filled(12, case)}")
        try:
            source.execute(*case.statements)
        except psycopg.Error as error:
            refused[case.told] = str(error)
        for sql in _behind(case):
            with suppress(psycopg.Error):  # another name, or none; a column that takes no NULL
                source.execute(sql)
    assert not refused, "the source refuses\n" + "\n".join(f"{told} -> {why}" for told, why in refused.items())
    here.stream()
    for case in told:
        for key in (1, 21):
            _fill(source, case, key)
    here.stream()
    source.execute("CREATE TABLE looked (id int PRIMARY KEY)")
    with here.running():  # capture has looked at all tables once it has seen this one
        until(lambda: here.made.states().get("looked") == "parked", "capture looks at the tables")


def _behind(case: PostgresCase) -> Iterator[str]:
    yield f"INSERT INTO {case.table} {_filled(21, case)}"
    yield f"UPDATE {case.table} SET id = 22 WHERE id = 2"
    yield f"DELETE FROM {case.table} WHERE id = 3"


def _fill(source: Database, case: PostgresCase, key: int) -> None:
    """Give every column a value in a row."""
    columns = source.query(COLUMNS, [f"public.{case.table}"])
    values = {
        name: label or VALUES.get(base)
        for name, _, _, computed, _, base, label in columns
        if not computed and name not in ("id", "key", "z", "za")
    }
    told = ", ".join(f'"{name}" = {value}' for name, value in values.items() if value)
    if told:
        with suppress(psycopg.Error):  # a unique key, a check
            key_name = next((name for name, *_ in columns if name in ("id", "key")), "")
            source.execute(f"UPDATE {case.table} SET {told} WHERE {key_name} = {key}")


def _found(here: JobHere, told: list[PostgresCase]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each table with its outcome, and the reason where it is parked."""
    states, notes = here.made.states(), here.job.ddl_changes()
    for case in told:
        mine = [one for one in notes if one.source.name == case.table]
        if states.get(case.table) != "streaming":
            yield case.table, ("parked", f"{states.get(case.table)} " + "; ".join(one.why for one in mine))
        else:
            altered = any(one.outcome is Outcome.ALTERED for one in mine)
            yield case.table, ("altered" if altered else "same", "")


def _apart(here: JobHere, told: list[PostgresCase], is_noted: bool) -> dict[str, Any]:
    """Return tables that go on and have other columns than at the source, or other rows."""
    found: dict[str, Any] = {}
    for case in told:
        at_source, at_target = (_columns(end, case, is_noted) for end in (here.made.source, here.made.target))
        if at_source != at_target:
            found[case.told] = "columns", at_source, at_target
        elif (there := here.made.source_rows(case.table)) != (rows := here.made.target_rows(case.table)):
            found[case.told] = "rows", there, rows
    return found


def _columns(database: Database, case: PostgresCase, is_noted: bool) -> list[tuple[Any, ...]]:
    rows = database.query(COLUMNS, [f"public.{case.table}"])
    return [
        (name, type, not_null and is_noted, computed, collation)
        for name, type, not_null, computed, collation, *_ in rows
    ]
