"""`[target.options] arrays = "json"`: elements that stand apart by another sign than a comma, and those that are printed in
quotes, as the catalogue's definitions tell them: every row comes once by the load and once by the stream, and is the same.

Options, keys and the way back stand in test_mysql_target_json_arrays.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql

LATER = 1000  # of a row that comes by the stream: its number, beside that of the row that was loaded


def base_type(name: str, delimiter: str) -> str:
    """Make a type of a user's own, which reads and prints as text does."""
    return (
        f"CREATE TYPE {name}; CREATE FUNCTION {name}_in(cstring) RETURNS {name} LANGUAGE internal STRICT AS 'textin';"
        f" CREATE FUNCTION {name}_out({name}) RETURNS cstring LANGUAGE internal STRICT AS 'textout';"
        f" CREATE TYPE {name} (INPUT = {name}_in, OUTPUT = {name}_out, LIKE = text, DELIMITER = '{delimiter}')"
    )


TYPES = (
    base_type("bars", "|"),
    base_type("colons", ":"),
    base_type("letters", "N"),
    base_type("blanks", " "),
    "CREATE DOMAIN corner AS box",
    "CREATE DOMAIN last_corner AS corner CHECK (VALUE IS NOT NULL)",
    "CREATE DOMAIN bar AS bars",
    "CREATE DOMAIN whole AS bigint",
    "CREATE DOMAIN ints AS int[]",
    "CREATE DOMAIN boxes AS box[]",
    'CREATE TYPE "odd[]" AS (a int, "b c" text)',
)
COLUMNS = {
    "x": "box[] DEFAULT '{}'", "c": "corner[]", "l": "last_corner[]", "b": "bars[]", "bd": "bar[]", "k": "colons[]",
    "w": "whole[]", "i": "ints[]", "y": "boxes[]", "o": '"odd[]"[]', "raw": "bytea[]", "j": "json[]", "n": "numeric[]",
    "f": "real[]", "d": "double precision[]", "t": "text[]", "ch": "character(3)[]", "v": "int2vector[]", "p": "point[]",
    "g": "numrange[]", "s": "interval[]", "tz": "time with time zone[]", "q": "\"char\"[]",
}  # fmt: skip
TEXTS = {"le": "letters[]", "bl": "blanks[]", "dx": "boxes", "odd": '"odd[]"'}  # whose columns stay texts
CORNERS = "'{(3,4),(1,2);NULL;(1,1),(0,0)}'"
NESTED = "'[2:3][0:0]={{(3,4),(1,2)};{(1,1),(0,0)}}'"
ROWS = (
    {"x": CORNERS, "c": CORNERS, "l": "'{(3,4),(1,2);(1,1),(0,0)}'", "b": """'{a,b|"c|d"|NULL|"NULL"|null|""|"q\\""}'""",
     "bd": "'{a,b|c,d}'", "k": """'{1,2:"3:4":NULL}'""", "w": "'{1,NULL,-9223372036854775808}'",
     "i": "ARRAY['{1,2}', '{}']::ints[]", "y": "ARRAY['{(3,4),(1,2);(1,1),(0,0)}', '{}']::boxes[]",
     "o": """ARRAY[ROW(1, 'a, "b" \\ c'), ROW(NULL, NULL), NULL, ROW(2, '')]::"odd[]"[]""",
     "raw": r"""ARRAY['\x00ff5c227b', '']::bytea[]""", "j": """ARRAY['{"a": [1, "x,\\u00e9"], "b" : null}', 'null']::json[]""",
     "n": "'{12345678901234567890123456789.123456789012345678901234567890,NaN,Infinity,-0.0,1e-20}'",
     "f": "'{3.4028235e38,1e-45,NaN,-Infinity,-0,0.1}'", "d": "'{1e23,5e-324,NaN,Infinity,0.30000000000000004}'",
     "t": r"""ARRAY['NULL', 'null', NULL, '', '\', '"', '{', '}', ',', ';', E'\t\n\r\x08', ' a ', 'é😀', '\N', E'\u2028']""",
     "ch": "'{a,\"\",abc}'", "v": "ARRAY['1 2', '']::int2vector[]", "p": "'{\"(1,2)\",NULL}'", "g": "'{\"[1,2.50)\",empty}'",
     "s": "'{\"1 year -02:00:00.5\",00:00:00}'", "tz": "'{24:00:00+00,01:02:03.4-15:59}'", "q": "'{a,\"\",\",\"}'",
     "le": "'{aNb}'", "bl": "'{a b}'", "dx": "'{(3,4),(1,2);(1,1),(0,0)}'", "odd": "ROW(1, 'a')"},
    {"x": NESTED, "c": NESTED, "b": "'[-1:0]={a,b|c}'", "k": "'[0:0]={NULL}'", "t": "'[2:3]={a,\"[0:1]={b}\"}'",
     "n": "'[2:3]={1,2}'", "o": "'[0:0]={NULL}'"},
    {**dict.fromkeys((*COLUMNS, "le", "bl", "dx"), "'{}'"), "odd": "NULL"},
    dict.fromkeys((*COLUMNS, *TEXTS), "NULL"),
)  # fmt: skip


def inserts(first: int) -> list[str]:
    return [
        f"INSERT INTO elements (id, {', '.join(row)}) VALUES ({first + number}, {', '.join(row.values())})"
        for number, row in enumerate(ROWS)
    ]


@pytest.mark.one_family
def test_elements_are_told_apart_by_the_sign_of_their_type_in_load_and_stream(
    mysql_family: Server, logical_postgresql: Server, tmp_path: Path
) -> None:
    database, there = create_database(logical_postgresql, "elements"), create_database(mysql_family, "elements")
    declared = ", ".join(f"{name} {native}" for name, native in {**COLUMNS, **TEXTS}.items())
    database.execute(*TYPES, f"CREATE TABLE elements (id int PRIMARY KEY, {declared})", *inserts(1))
    database.execute(
        "CREATE TABLE element_bag (c corner[], b bars[])",
        "ALTER TABLE element_bag REPLICA IDENTITY FULL",
        f"INSERT INTO element_bag VALUES ({CORNERS}, '{{a,b|c}}'), ({CORNERS}, '{{a,b|c}}'), ({NESTED}, NULL)",
    )
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    made.write_job('[target.options]\narrays = "json"\n')
    here = JobHere(made)

    def rows(columns: str, where: str = "1") -> list[tuple[object, ...]]:
        return made.target.query(f"SELECT {columns} FROM `{there.name}`.elements WHERE {where} ORDER BY id")

    here.load()
    here.stream()
    database.execute(
        *inserts(1 + LATER),
        "DELETE FROM element_bag WHERE ctid = '(0,1)'",
        "UPDATE element_bag SET b = '{x|y}' WHERE b IS NULL",
    )
    here.stream()
    for by_rows in (False, True):
        found = here.verify(by_rows=by_rows)
        assert found.identical, found

    every = ", ".join((*COLUMNS, *TEXTS))
    assert rows(every, f"id < {LATER}") == rows(every, f"id > {LATER}") and len(rows("id")) == 2 * len(ROWS)
    for name in COLUMNS:  # each element, as the server itself counts and prints them
        query = f"SELECT id, {name} IS NULL, ARRAY(SELECT e::text FROM unnest({name}) AS e) FROM elements ORDER BY id"
        if name == "ch":  # with its blanks
            query = query.replace("e::text", "concat(e)")
        if name == "o":  # not its fields
            query = query.replace("e::text FROM unnest(o) AS e", "o[n]::text FROM generate_subscripts(o, 1) AS n")
        expected = [(id, None if is_null else list(elements)) for id, is_null, elements in database.query(query)]
        assert [(id, told and flat(name, str(told))) for id, told in rows(f"id, {name}")] == expected, name
    for name in TEXTS:
        expected = database.query(f"SELECT {name}::text FROM elements ORDER BY id")
        assert rows(name) == [tuple(row) for row in expected], name
    assert rows("x, c, b, k", "id = 2") == [
        (
            '{"[2:3][0:0]": [["(3,4),(1,2)"], ["(1,1),(0,0)"]]}',
            '{"[2:3][0:0]": [["(3,4),(1,2)"], ["(1,1),(0,0)"]]}',
            '{"[-1:0]": ["a,b", "c"]}',
            '{"[0:0]": [null]}',
        )
    ]
    here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)


def flat(name: str, told: str) -> list[str | None]:
    """Return the elements of a JSON array, nested or not, as a PostgreSQL prints them: numbers with all of their digits."""
    found = json.loads(told, parse_int=str, parse_float=str)
    if isinstance(found, dict):
        ((found),) = found.values()
    parts: list[str | None] = []
    open_ = [found]
    while open_:
        one = open_.pop(0)
        if isinstance(one, list):
            open_ = [*one, *open_]
        else:
            assert one is None or isinstance(one, str), (name, one)
            parts.append(one)
    return parts
