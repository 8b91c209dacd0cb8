"""Labels that enums of a real PostgreSQL have under other names by now: another one renames its own where a load brings a table
in again, if only tables at rest show other values by it; a row with such a label is no conflict, but parks its table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest

from anabranch.apply.labels import needed_now
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.errors import Redefined, TargetError
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState
from anabranch.rows.net import TableNet
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import JOB, RULES
from rigs.postgresql_writer import Applying
from rigs.structures import Ends, Make, ends

__all__ = ["ends"]

PLAIN, MANY = TableId("public", "plain"), TableId("public", "many")
MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'o''k', 'happy')",
    "CREATE DOMAIN feeling AS mood",
    "CREATE TYPE place AS (town text, felt feeling)",
    "CREATE TABLE plain (id int PRIMARY KEY, v mood DEFAULT 'o''k', w place[] DEFAULT '{}', x mood[] DEFAULT '{sad,happy}')",
    "CREATE TABLE many (id int PRIMARY KEY, v mood)",
)
LABELS = (
    "SELECT string_agg(enumlabel, ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = 'public.mood'::regtype"
)
DEFAULTS = (
    "SELECT attname, pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = attrelid"
    " AND d.adnum = attnum WHERE attrelid = 'public.plain'::regclass ORDER BY attnum"
)
SWAP = tuple(
    f"ALTER TYPE mood RENAME VALUE '{old}' TO '{new}'" for old, new in (("sad", "t"), ("happy", "sad"), ("t", "happy"))
)


@pytest.fixture
def both(ends: Make) -> Iterator[Ends]:
    """`many` is parked, `plain` is loaded by the tests."""
    made = ends(*MADE)
    made.create()
    for table, schema in made.schemas.items():
        made.loader.build(JOB, schema, made.tables[table], made.tables.get)
    with closing(PostgresStore(endpoint_of(made.target))) as store:
        store.create_checkpoint(JOB, Position(0, "start"), 0)
        for table, one in made.tables.items():
            parked = TableState(table, one.target, "parked", schema=made.schemas[table])
            store.save_table(JOB, parked, store.table(JOB, table))
    yield made


def definition(both: Ends) -> TableSchema:
    with closing(source(endpoint_of(both.source)).catalog()) as catalog:
        return catalog.tables(lambda table: table == PLAIN)[PLAIN]


def rename(both: Ends) -> list[str]:
    loader = target(endpoint_of(both.target)).loader(RULES)
    with closing(loader):
        return list(loader.rename_labels(JOB, both.tables[PLAIN], both.schemas.values(), definition(both)))


def same_labels(both: Ends) -> bool:
    return both.target.query(LABELS) == both.source.query(LABELS)


def test_renamed_labels_are_renamed_and_the_defaults_follow(both: Ends) -> None:
    """Also those that change places, and what was added meanwhile is left to the row that has it."""
    assert rename(both) == []
    both.source.execute("ALTER TYPE mood RENAME VALUE 'o''k' TO 'fi''ne'")
    assert rename(both) == ["ALTER TYPE public.mood RENAME VALUE 'o''k' TO 'fi''ne'"]
    assert same_labels(both) and rename(both) == []
    both.schemas[PLAIN] = definition(both)  # it is loaded by this one; `many` is still parked
    both.source.execute(*SWAP)
    assert len(rename(both)) == 4 and same_labels(both) and rename(both) == []
    both.schemas[PLAIN] = definition(both)
    both.source.execute("ALTER TYPE mood ADD VALUE 'new' BEFORE 'sad'", "ALTER TYPE mood RENAME VALUE 'sad' TO 'glum'")
    assert rename(both) == ["ALTER TYPE public.mood RENAME VALUE 'sad' TO 'glum'"]
    assert both.target.query(LABELS) == [("happy, fi'ne, glum",)]
    assert both.target.query(DEFAULTS) == both.source.query(DEFAULTS)


def test_a_definition_is_the_same_but_for_the_labels_names(both: Ends) -> None:
    """Within arrays, too; a default that was changed besides is another one."""
    both.source.execute("ALTER TYPE mood RENAME VALUE 'o''k' TO 'fi''ne'", *SWAP)
    then, now = both.schemas[PLAIN], definition(both)
    assert not now.same_definition(then)
    assert now.same_definition(both.loader.as_renamed(then, now))
    both.source.execute("ALTER TABLE plain ALTER v SET DEFAULT 'sad'")
    now = definition(both)
    assert not now.same_definition(both.loader.as_renamed(then, now))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE anabranch.table_state SET state = 'streaming' WHERE source_table = 'public.many'",
        "UPDATE anabranch.table_state SET job = 'another' WHERE source_table = 'public.many'",
        "INSERT INTO anabranch.table_state (job, source_table, target_table, state)"
        " VALUES ('another', 'public.plain', 'public.plain', 'parked')",
        "CREATE TABLE their (id int, v feeling[])",
        "CREATE TABLE their (id int, v place) PARTITION BY LIST (id)",
        "CREATE TABLE their (v plain)",
    ],
)
def test_what_others_would_see_is_not_renamed(both: Ends, statement: str) -> None:
    """At whatever depth they have the type."""
    both.source.execute("ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'")
    both.target.execute(statement)
    whose = "their" if "their" in statement else "plain" if "INSERT" in statement else "many"
    with pytest.raises(TargetError, match=rf"at the target public\.{whose} would show other values") as told:
        rename(both)
    assert "ALTER TYPE public.mood RENAME VALUE 'happy' TO 'glad'" in told.value.hint
    assert both.target.query(LABELS) == [("sad, o'k, happy",)]
    both.target.execute("ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'")
    assert rename(both) == [], "somebody has done it"


def test_labels_that_nobody_can_tell_apart_are_named(both: Ends) -> None:
    both.source.execute(*SWAP, "ALTER TYPE mood RENAME VALUE 'o''k' TO 'fine'")
    both.target.execute("ALTER TYPE mood RENAME VALUE 'o''k' TO 'so so'")
    with pytest.raises(TargetError, match="others than before: 'sad', 'so so', 'happy'") as told:
        rename(both)
    assert "until they are 'happy', 'fine', 'sad'" in told.value.hint


def test_a_row_with_a_renamed_label_is_no_conflict(both: Ends) -> None:
    """Whoever applies it waits until capture has seen that the definition is another one, and parks the table."""
    made = Applying(endpoint_of(both.target))
    states = {MANY: TableState(MANY, both.tables[MANY].target, "streaming", schema=both.schemas[MANY])}
    made.writer.follow_labels(needed_now(source(endpoint_of(both.source)), lambda: states))
    both.source.execute("ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'")
    columns = {"id": pa.array([1], pa.int32()), "v": pa.array(["glad"], pa.string())}
    with pytest.raises(Redefined, match=r"labels of the enum public\.mood were renamed") as told, made as writer:
        writer.merge(TableNet(both.tables[MANY], inserts=pa.table(columns)))
    assert told.value.table == "public.many"
    made.writer.close()


@pytest.mark.since(12)
def test_columns_are_not_computed_by_the_function_of_before(ends: Make) -> None:
    """One that a person has written for the target stands."""
    made = ends(
        "CREATE FUNCTION inner_f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'",
        "CREATE FUNCTION outer_f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.inner_f($1)'",
        "CREATE TABLE plain (id int PRIMARY KEY, v int GENERATED ALWAYS AS (outer_f(id)) STORED)",
    )
    made.create()
    replaced = "CREATE OR REPLACE FUNCTION inner_f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + {}'"
    made.loader.refuse_older_functions(made.schemas.values(), definition(made))
    made.source.execute(replaced.format(2))
    with pytest.raises(
        TargetError, match=r"computes columns by public\.inner_f\(integer\) as the source had it"
    ) as told:
        made.loader.refuse_older_functions(made.schemas.values(), definition(made))
    assert "SELECT $1 + 2" in told.value.hint
    for text in ("40 + 2", "2"):
        made.target.execute(replaced.format(text))
        made.loader.refuse_older_functions(made.schemas.values(), definition(made))
