"""Target types by the job's own choice: what the load writes and what the stream writes is what verification reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from anabranch import connectors
from anabranch.config.sections.types_at_target import Types
from anabranch.config.url import parse_url
from anabranch.connectors.postgresql.target.choices import choice
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import Bounds, ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META
from anabranch.rows.lines import lines
from anabranch.rows.net import TargetTable
from anabranch.rules.choices import TypeChoices
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.verify.canonical import Canonical

# source type, chosen type, values
COLUMNS: list[tuple[str, str, list[object]]] = [
    ("tinyint(1)", "boolean", [0, 1, None]),
    ("tinyint unsigned", "boolean", [1, 0, None]),
    ("tinyint", "integer", [-128, 127]),
    ("int unsigned", "integer", [0, 2**31 - 1]),
    ("bigint unsigned", "bigint", [0, 2**63 - 1]),
    ("bigint", "numeric", [-(2**63), 2**63 - 1]),
    ("int", "text", [-5, 100]),
    ("decimal(20,0)", "bigint", ["-99999999999", "5"]),
    ("decimal(12,3)", "numeric", ["1.500", "-0.001"]),
    ("decimal(12,3)", "text", ["1.500", "-0.001"]),
    ("decimal(30,10)", "double precision", ["1.1", "12345678901234567890.0123456789"]),
    ("float", "double precision", ["0.1", "16777215", "-1.5e-7"]),
    ("float", "numeric", ["0.1", "3.4e38", "-0.0"]),
    ("double", "numeric", ["0.1", "1e300", "-0.0", "5e-324"]),
    ("double", "text", ["0.1", "1e300"]),
    ("char(36)", "uuid", ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"]),
    ("varchar(32)", "uuid", ["A0EEBC999C0B4EF8BB6D6BB9BD380A11"]),
    ("varchar(20)", "text", ["x", "", "ä "]),
    ("text", "varchar", ["x\t", ""]),
    ("text", "jsonb", ['{"b": 1.50, "a": [true]}', "null"]),
    ("text", "json", ['{"b": 1.50, "a": [true]}']),
    ("bit(1)", "boolean", [0, 1]),
    ("bit(9)", "varbit", [0, 257]),
    ("date", "timestamp", ["2024-02-29", "9999-12-31"]),
    ("date", "text", ["2024-02-29", "1000-01-01"]),
    ("datetime(3)", "timestamptz", ["2024-02-29 12:00:00.125", "1000-01-01 00:00:00"]),
    ("datetime", "text", ["2024-03-31 02:30:00"]),
    ("timestamp(6) null", "timestamp", ["2024-03-31 02:30:00.000001"]),
    ("timestamp null", "text", ["2024-03-31 02:30:00"]),
    ("time(3)", "time", ["00:00:00", "23:59:59.999", "24:00:00"]),
    ("time", "text", ["-838:59:59", "01:02:03"]),
    ("year", "integer", [0, 2155]),
    ("year", "text", [1901]),
    ("enum('a','b')", "text", ["a", "b"]),
    ("set('a','b')", "varchar", ["a,b", ""]),
    ("json", "json", ['{"b": 1, "a": 2}', "[]"]),
    ("json", "text", ['{"b": 1, "a": 2}']),
]
ROWS = max(len(values) for _, _, values in COLUMNS)


def chosen(schema: TableSchema, name: str) -> TargetTable:
    """As the rule set makes it, each column with its own choice."""
    types = TypeChoices(Types(), PostgresTypes(), ValueRules())
    picked = {f"c{place}": target for place, (_, target, _) in enumerate(COLUMNS)}
    names = tuple(column.name for column in schema.columns)
    kinds = tuple(types.of(column, picked.get(column.name, "")) for column in schema.columns)
    assert None not in kinds
    assert all(choice(type) is not None for type in kinds[1:])
    return TargetTable(schema.id, TableId("public", name), names, kinds, schema.primary_key, names)


def test_pitfall_35_chosen_types_agree_in_load_stream_and_verification(
    mysql_family: Server, source_database: Callable[[Server], Database], target_database: Database, follow: Callable
) -> None:
    database = source_database(mysql_family)
    definition = ", ".join(f"c{place} {native}" for place, (native, _, _) in enumerate(COLUMNS))
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, {definition})")
    follower = follow(database)
    follower.begin()
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")
        for row in range(ROWS):
            values = [values[row % len(values)] for _, _, values in COLUMNS]
            cursor.execute(f"INSERT INTO t VALUES (%s{', %s' * len(values)})", (row, *values))
    follower.take()
    schema, rules = follower.schema("t"), ValueRules()
    endpoint, _ = parse_url(target_database.url, {}, needs_database=True)
    assert endpoint is not None
    target = connectors.target(endpoint)
    with (
        closing(target.loader(rules)) as loader,
        closing(target.reader(rules)) as reader,
        closing(connectors.source(follower.endpoint).snapshot()) as snapshot,
    ):
        from_load = b"".join(snapshot.lines(schema, [c.name for c in schema.columns], Bounds(), rules))
        for name, content in (("loaded", [from_load]), ("streamed", list(streamed(follower, schema)))):
            table = chosen(schema, name)
            loader.create_table(schema, table, rules, False)
            with closing(target_database.connect()) as there, there.cursor() as cursor:
                cursor.execute("SET timezone = 'UTC'")
                with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    for block in content:
                        copy.write(block)
            canonical = Canonical(table)
            ours, theirs = (
                [row for block in blocks for row in canonical.rows(block)]
                for blocks in ([from_load], reader.lines(table, "true"))
            )
            for one, other in zip(sorted(ours), sorted(theirs), strict=True):
                for place, (a, b) in enumerate(zip(one.split(b"\t"), other.split(b"\t"), strict=True)):
                    assert a == b, COLUMNS[place - 1]
    types = target_database.query(
        "SELECT column_name, udt_name FROM information_schema.columns WHERE table_name = 'loaded' AND column_name <> 'id'"
    )
    assert {"bool", "int4", "int8", "uuid", "jsonb", "timestamptz", "time", "varbit", "float8"} <= {t for _, t in types}


def streamed(follower: Any, schema: TableSchema) -> Any:
    for chunk in follower.chunks():
        for rows in chunk.tables:
            yield lines([column.type for column in schema.columns], rows.batch.columns[META:])
