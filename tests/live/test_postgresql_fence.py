"""The fence of a PostgreSQL: every way to write is refused, whoever it is, and nothing of it is left behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from anabranch.connectors.postgresql.source import connector
from anabranch.contracts import FencedSource, SourceFence
from anabranch.model.checks import CheckVerdict
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of

TABLES = (
    "CREATE TABLE plain (id int PRIMARY KEY, v int)",
    "CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES plain ON DELETE CASCADE)",
    "CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE other (id int PRIMARY KEY)",
    "INSERT INTO plain VALUES (1, 1), (2, 2)",
    "INSERT INTO child VALUES (1, 1)",
    "INSERT INTO parts VALUES (1, 1)",
)
WRITES = (
    "INSERT INTO plain VALUES (3, 3)",
    "INSERT INTO plain VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = 5",
    "UPDATE plain SET v = 9",
    "DELETE FROM child",
    "TRUNCATE child",
    "TRUNCATE parts",
    "INSERT INTO parts VALUES (2, 2)",
    "UPDATE parts_1 SET v = 3",
    "WITH gone AS (DELETE FROM parts RETURNING *) SELECT count(*) FROM gone",
    "SET session_replication_role = replica; DELETE FROM plain",
)
FENCED = tuple(TableId("public", name) for name in ("child", "parts", "plain"))


def fence_of(database: Database, name: str = "anabranch_shop_1") -> SourceFence:
    source = connector(endpoint_of(database))
    assert isinstance(source, FencedSource)
    return source.fence(name)


def traces(database: Database) -> list[tuple[object, ...]]:
    return database.query(
        "SELECT tgname::text FROM pg_trigger WHERE tgname LIKE 'anabranch%'"
        " UNION ALL SELECT nspname::text FROM pg_namespace WHERE nspname = 'anabranch_fence'"
    )


def test_rule_24_pitfall_72_no_write_passes_the_fence_of_a_postgresql(
    postgresql_source: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(postgresql_source)
    database.execute(*TABLES)
    fence = fence_of(database)
    assert [one.verdict for one in fence.checks(FENCED)] == [CheckVerdict.OK]
    before = fence.before(FENCED)
    assert fence.gaps(FENCED, before), "not raised yet"
    for _ in range(2):  # to raise it again changes nothing
        assert fence.deny(FENCED, before) == [] and fence.gaps(FENCED, before) == []
    for statement in WRITES:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="being cut over"):
            database.execute(statement)
    database.execute("INSERT INTO other VALUES (1)", "UPDATE plain SET v = 1 WHERE false")
    mark = fence.mark(before)
    source = connector(endpoint_of(database))
    with closing(source.catalog()) as catalog:
        assert source.order.includes(catalog.mark(), mark.native, None)

    database.execute("CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100) TO (200)")
    assert "public.parts_2" in fence.gaps(FENCED, before)[0]
    database.execute("DROP TABLE parts_2", "ALTER TABLE plain DISABLE TRIGGER ALL")
    assert "public.plain" in fence.gaps(FENCED, before)[0]
    assert fence.deny(FENCED, before) == [] and fence.gaps(FENCED, before) == []

    assert fence.lift(FENCED, before) == [] and traces(database) == []
    assert fence.lift(FENCED, before) == []
    for statement in WRITES:
        database.execute(statement)


def test_rule_24_ddl_behind_the_fence_of_a_postgresql_is_seen(
    postgresql_source: Server, source_database: Callable[[Server], Database]
) -> None:
    """No trigger fires for it: what was dropped, renamed, rewritten or altered is known by its definition from before."""
    database = source_database(postgresql_source)
    database.execute(*TABLES, "CREATE TYPE mood AS ENUM ('sad', 'ok')", "ALTER TABLE child ADD m mood DEFAULT 'sad'")
    fence = fence_of(database)
    before = json.loads(json.dumps(fence.before(FENCED)))  # as a note keeps it
    assert fence.deny(FENCED, before) == [] and fence.gaps(FENCED, before) == []
    database.execute("ANALYZE plain", "VACUUM plain", "CREATE INDEX ON plain (v)", "CREATE TABLE more (id int)")
    assert fence.gaps(FENCED, before) == [], "none of this changes rows"
    for statements, said in (
        (("ALTER TABLE plain ALTER v TYPE int USING v + 1",), ["public.plain was rewritten"]),
        (("ALTER TABLE plain ALTER v TYPE bigint USING v + 1",), ["columns of public.plain were changed"]),
        (("ALTER TYPE mood RENAME VALUE 'sad' TO 'low'",), ["columns of public.child were changed"]),
        (("VACUUM FULL parts_1",), ["public.parts_1 was rewritten"]),
        (("ALTER TABLE parts_1 RENAME TO parts_0",), ["public.parts_1 was renamed: public.parts_0"]),
        (("DROP TABLE plain CASCADE",), ["public.plain was dropped"]),
    ):
        database.execute(*statements)
        found = fence.gaps(FENCED, before)
        assert all(any(line.startswith(words) for line in found) for words in said), (statements, found)
    assert fence.gaps(FENCED, before, is_flipped=True) == [], "the triggers of what is left tell nothing of it"
    assert fence.lift(FENCED, before) == [] and traces(database) == []


def test_rule_24_older_transactions_hold_the_fence_up_and_readers_do_not(
    postgresql_source: Server, source_database: Callable[[Server], Database]
) -> None:
    """Nobody is refused as long as an older one is inside; a reader only keeps what refuses nobody from being removed."""
    database = source_database(postgresql_source)
    database.execute(*TABLES)
    fence, before = fence_of(database), dict[str, object]()
    with closing(database.connect(autocommit=False, application_name="nightly")) as older:
        older.execute("UPDATE plain SET v = 7 WHERE id = 1")
        assert "application nightly" in fence.deny(FENCED, before)[0]
        older.execute("UPDATE parts SET v = 7")
        older.execute("PREPARE TRANSACTION 'nightly'")
        prepared = fence.deny(FENCED, before)
        assert prepared[0].startswith("the prepared transaction 'nightly' of ") and traces(database) == [], prepared
        older.commit()
        database.execute("COMMIT PREPARED 'nightly'")
        older.execute("SELECT count(*) FROM plain")
        assert fence.deny(FENCED, before) == []
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            older.execute("UPDATE plain SET v = 8 WHERE id = 1")
        older.rollback()
        older.execute("SELECT count(*) FROM plain")
        left = fence.lift(FENCED, before)
        assert [line for line in left if "plain" not in line] == [] and left
        database.execute("UPDATE plain SET v = 8 WHERE id = 1")
    assert fence.lift(FENCED, before) == [] and traces(database) == []


def test_rule_24_a_fence_needs_the_tables_owner_and_says_how_to_become_one(
    postgresql_source: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(postgresql_source)
    role = f"{database.name[:40]}_app"
    database.execute(*TABLES, f"CREATE ROLE \"{role}\" LOGIN PASSWORD 'secret'")
    try:
        source = connector(replace(endpoint_of(database), user=role, password="secret"))
        assert isinstance(source, FencedSource)
        hints = [one.hint for one in source.fence("anabranch_shop_1").checks(FENCED)]
        owner = database.query("SELECT current_user::text")[0][0]
        assert hints == [f'GRANT "{owner}" TO "{role}"', f'GRANT CREATE ON DATABASE "{database.name}" TO "{role}"']
        database.execute(*hints)
        assert [one.verdict for one in source.fence("anabranch_shop_1").checks(FENCED)] == [CheckVerdict.OK]
    finally:
        database.execute(f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')
