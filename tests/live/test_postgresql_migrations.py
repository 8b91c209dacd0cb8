"""The schema `anabranch` at a real PostgreSQL: made, taken over from an earlier release, refused where a newer one was here."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.target.migrate import pending, shipped
from anabranch.connectors.postgresql.target.preflight import PostgresChecks
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.connectors.sql.migrations import Migration, newest, parsed
from anabranch.contracts import PreflightContext
from anabranch.errors import StateError
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from rigs.endpoints import endpoint_of

COLUMNS = """
SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
       pg_get_expr(d.adbin, d.adrelid)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (c.oid, a.attnum)
 WHERE c.relnamespace = 'anabranch'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2
"""
NOTES = "SELECT (n ->> 'number')::int, n ->> 'stage' FROM anabranch.meta, jsonb_array_elements(migrations) AS n"
ALL = [(one.number, one.stage) for one in shipped()]
# The next release: a column, and a table that only older releases need.
ADDS = parsed("0101_more.before.sql", "-- makes: anabranch.job.more\nALTER TABLE anabranch.job ADD COLUMN more text;\n")
TAKES = parsed("0101_more.after.sql", "-- drops: anabranch.trace\nDROP TABLE anabranch.trace;\n")
NEXT = (*shipped(), ADDS, TAKES)


def prepared(target: Any, known: tuple[Migration, ...] = ()) -> None:
    with closing(PostgresStore(endpoint_of(target), known)) as store:
        store.prepare()


def started(target: Any, job: str, known: tuple[Migration, ...] = ()) -> None:
    with closing(PostgresStore(endpoint_of(target), known)) as store:
        store.prepare()
        store.save_job(job, {"uuid": "u"})


def has(target: Any, table: str, column: str) -> bool:
    return (table, column) in {(one, name) for one, name, *_ in target.query(COLUMNS)}


def test_a_new_schema_has_each_migration_noted_once(target_database: Any) -> None:
    prepared(target_database)
    made = target_database.query(COLUMNS)
    prepared(target_database)
    assert target_database.query(NOTES) == ALL and target_database.query(COLUMNS) == made
    assert target_database.query("SELECT version FROM anabranch.meta") == [(1,)]


@pytest.mark.parametrize("there", range(1, len(shipped()) + 1))
def test_what_earlier_releases_have_made_is_taken_over(there: int, target_database: Any) -> None:
    """They noted nothing, and made the later tables one after the other."""
    prepared(target_database)
    whole = target_database.query(COLUMNS)
    target_database.execute("DROP SCHEMA anabranch CASCADE")
    for one in shipped()[:there]:
        if one.name != "migrations":
            target_database.execute(one.sql)
    prepared(target_database)
    assert target_database.query(COLUMNS) == whole and target_database.query(NOTES) == ALL


def test_a_newer_version_is_refused_and_says_which_release_made_it(target_database: Any) -> None:
    started(target_database, "shop", NEXT)
    prepared(target_database, NEXT)
    note = "jsonb_set(migrations, ARRAY[(jsonb_array_length(migrations) - 1)::text, 'release'], '\"9.1\"')"
    target_database.execute(f"UPDATE anabranch.meta SET migrations = {note}")
    with pytest.raises(StateError, match=r"version 101, this release knows 1") as refused:
        prepared(target_database)
    assert refused.value.hint == "use anabranch 9.1 or a newer one"


def test_what_only_older_releases_need_stays_until_none_is_left(target_database: Any) -> None:
    started(target_database, "older")
    started(target_database, "newer", NEXT)
    prepared(target_database, NEXT)
    assert has(target_database, "job", "more") and has(target_database, "trace", "event")
    started(target_database, "older")  # it goes on, beside what it does not know
    started(target_database, "older", NEXT)
    prepared(target_database, NEXT)
    assert not has(target_database, "trace", "event")
    assert target_database.query(NOTES) == [*ALL, (101, "before"), (101, "after")]
    assert target_database.query("SELECT version FROM anabranch.meta") == [(101,)]


def test_what_a_release_knows_is_no_fact_of_the_job(target_database: Any) -> None:
    started(target_database, "shop")
    with closing(PostgresStore(endpoint_of(target_database))) as store:
        assert store.job("shop") == {"uuid": "u"}
    facts = target_database.query("SELECT facts ->> 'knows' FROM anabranch.job")
    assert facts == [(str(newest(shipped())),)]


def test_a_schema_that_an_older_release_made_anew_is_not_taken_for_the_one_before(target_database: Any) -> None:
    """It drops and makes the tables that it knows."""
    prepared(target_database)
    for table in ("meta", "job", "checkpoint", "table_state", "load_chunk", "conflict"):
        target_database.execute(f"DROP TABLE anabranch.{table}")
    target_database.execute(shipped()[0].sql)
    prepared(target_database)
    assert target_database.query(NOTES) == ALL
    assert target_database.query("SELECT to_regclass('anabranch.conflict') IS NOT NULL") == [(True,)]


@pytest.fixture
def user(target_database: Any) -> Iterator[Endpoint]:
    """Somebody who may use the schema, and does not own it."""
    name, own = f"u_{secrets.token_hex(4)}", endpoint_of(target_database)
    target_database.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'p'")
    yield Endpoint("postgresql", own.host, own.port, name, "p", own.database)
    target_database.execute(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_who_may_not_change_the_schema_gets_the_statements(target_database: Any, user: Endpoint) -> None:
    for one in shipped()[:1] + shipped()[2:5]:
        target_database.execute(one.sql)
    granted = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA anabranch"
    target_database.execute(f"GRANT CREATE, USAGE ON SCHEMA anabranch TO {user.user}", f"{granted} TO {user.user}")
    with closing(PostgresStore(user)) as store:
        with pytest.raises(StateError, match="must be owner of table meta") as refused:
            store.prepare()
        with closing(connect(user, "a-test", autocommit=True)) as connection:
            assert [one.number for one in pending(connection, shipped())] == [2, 6, 7, 8, 9, 10, 11, 12, 13]
        shown = refused.value.hint.partition(": ")[2]
        assert re.match(r"ALTER TABLE anabranch.meta ADD COLUMN migrations .*CREATE TABLE anabranch.taken_off", shown)
        target_database.execute(shown)
        store.prepare()
    assert target_database.query(NOTES) == ALL


def checked(end: Endpoint) -> list[CheckResult]:
    with closing(PostgresChecks(end)) as checks:
        return [one for one in checks.run(PreflightContext("shop", {}, {}, {})) if one.check == "target.state"]


def test_preflight_says_what_the_first_start_does_and_who_has_to_do_it(target_database: Any, user: Endpoint) -> None:
    target_database.execute(shipped()[0].sql)
    target_database.execute(
        f"GRANT CREATE, USAGE ON SCHEMA anabranch TO {user.user}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA anabranch TO {user.user}",
    )
    (told,) = checked(endpoint_of(target_database))
    assert told.verdict == "ok" and "0002_migrations.before, 0003_conflict.before" in told.message
    (refused,) = checked(user)
    assert refused.verdict == "failed" and "does not own its tables" in refused.message
    target_database.execute(refused.hint)
    assert checked(user) == []
    target_database.execute("UPDATE anabranch.meta SET version = 99")
    (newer,) = checked(user)
    assert newer.verdict == "failed" and "version 99" in newer.message
