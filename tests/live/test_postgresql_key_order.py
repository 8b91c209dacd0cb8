"""Keys whose order is not that of pg_catalog's operators, as citext's: each row is in exactly one piece, and is found by its
key. In the schema public and in another one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.contracts import Bounds
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES

# As citext, which not every build of the server has: a type of its own that goes for a text wherever nothing else is found.
SIGNS = {"lt": "<", "le": "<=", "eq": "=", "ge": ">=", "gt": ">"}
MADE = (
    "CREATE TYPE {s}.ci",
    "CREATE FUNCTION {s}.ci_in(cstring) RETURNS {s}.ci LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
    "CREATE FUNCTION {s}.ci_out({s}.ci) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'",
    "CREATE TYPE {s}.ci (INPUT = {s}.ci_in, OUTPUT = {s}.ci_out, INTERNALLENGTH = VARIABLE, STORAGE = extended,"
    " CATEGORY = 'S', COLLATABLE = true)",
    "CREATE CAST ({s}.ci AS text) WITHOUT FUNCTION AS IMPLICIT",
    *(
        f"CREATE FUNCTION {{s}}.ci_{name}({{s}}.ci, {{s}}.ci) RETURNS bool IMMUTABLE LANGUAGE sql AS"
        f" 'SELECT lower($1::text) {sign} lower($2::text)';"
        f"CREATE OPERATOR {{s}}.{sign} (LEFTARG = {{s}}.ci, RIGHTARG = {{s}}.ci, FUNCTION = {{s}}.ci_{name})"
        for name, sign in SIGNS.items()
    ),
    "CREATE FUNCTION {s}.ci_cmp({s}.ci, {s}.ci) RETURNS int IMMUTABLE LANGUAGE sql AS"
    " 'SELECT bttextcmp(lower($1::text), lower($2::text))'",
    "CREATE OPERATOR CLASS {s}.ci_ops DEFAULT FOR TYPE {s}.ci USING btree AS FUNCTION 1 {s}.ci_cmp({s}.ci, {s}.ci),"
    + ", ".join(f" OPERATOR {place} {{s}}.{sign}" for place, sign in enumerate(SIGNS.values(), 1)),
)
EXTENSION = "CREATE EXTENSION citext SCHEMA {s}"
KEYS = {
    "one": "k {type} PRIMARY KEY, n int",
    "two": "k {type}, n int, PRIMARY KEY (k, n)",
    "last": "n int, k {type}, PRIMARY KEY (n, k)",
    "domain": "k {s}.named PRIMARY KEY, n int",
}
ROWS = "SELECT substr('aBcDeFgHiJkLmNoPqRsTuVwXyZ', 1 + n % 26, 1) || CASE WHEN n % 3 = 0 THEN 'X' ELSE 'x' END || n, n"
ROWS += " FROM generate_series(1, 400) AS n"


@pytest.fixture(params=["public", '"Other one"'])
def keyed(postgresql_source: Server, source_database: Callable[[Server], Database], request: Any) -> Database:
    database, schema = source_database(postgresql_source), request.param
    there = database.query("SELECT 1 FROM pg_available_extensions WHERE name = 'citext'")
    made, type_ = ([EXTENSION], "citext") if there else (MADE, "ci")
    database.execute(
        *([] if schema == "public" else [f"CREATE SCHEMA {schema}"]),
        *(one.format(s=schema) for one in made),
        f"CREATE DOMAIN {schema}.named AS {schema}.{type_}",
    )
    for name, columns in KEYS.items():
        wanted = "k, n" if columns.startswith("k") else "n, k"
        database.execute(
            f'CREATE TABLE "t {name}" ({columns.format(type=f"{schema}.{type_}", s=schema)})',
            f'INSERT INTO "t {name}" SELECT {wanted} FROM ({ROWS}) AS r (k, n)',
        )
    return database


def test_pitfall_28_each_row_is_in_one_piece_and_found_by_its_key(keyed: Database) -> None:
    with closing(source(endpoint_of(keyed)).catalog()) as catalog:
        tables = catalog.tables(lambda table: table.name.startswith("t ")).values()
    assert len(tables) == len(KEYS)
    for table in tables:
        with closing(source(endpoint_of(keyed)).snapshot()) as snapshot:
            snapshot.open(table, "none")
            pieces = snapshot.bounds(table, 50)
            assert len(pieces) == 8 and pieces[0].lower is pieces[-1].upper is None
            found = [b"".join(snapshot.lines(table, ["k", "n"], piece, RULES)).splitlines() for piece in pieces]
            assert [len(lines) for lines in found] == [50] * 8, table.id
            everything = b"".join(snapshot.lines(table, ["k", "n"], Bounds(), RULES)).splitlines()
            assert sorted(line for lines in found for line in lines) == sorted(everything) and len(everything) == 400
            rows = [dict(zip(("k", "n"), line.decode().split("\t"), strict=True)) for line in everything[:20]]
            keys = [{name: row[name] for name in table.primary_key} for row in rows]
            assert sorted(b"".join(snapshot.lines_of(table, ["k", "n"], keys, RULES)).splitlines()) == sorted(
                everything[:20]
            )
