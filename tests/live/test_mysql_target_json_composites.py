"""`[target.options] composites = "json"`: values of composite types of a PostgreSQL as JSON at a MySQL or MariaDB, loaded,
followed, compared, also with fields that were altered, and back to texts when the job file says so.

The JSON of each text stands in tests/unit/rows/test_json_composites.py.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.contracts import drift_of
from anabranch.model.column_changes import FOLLOWS_NOTHING
from anabranch.model.ids import TableId
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import source_of
from anabranch.view.options import log_options, value_rules
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql

LATER = 1000  # of a row that comes by the stream: its number, beside that of the row that was loaded
FIELDS = {"n": "int", "big": "numeric", "f": "double precision", "b": "boolean", "t": "text", "raw": "bytea",
          "at": "timestamptz", "j": "jsonb", "a": "text[]", "p": "pair", "d": "whole", 'q "r"': "varchar(5)"}  # fmt: skip
MADE = (
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE DOMAIN whole AS bigint",
    "CREATE TYPE mixed AS ({})".format(
        ", ".join(f'"{k.replace(chr(34), chr(34) * 2)}" {v}' for k, v in FIELDS.items())
    ),
    "CREATE TYPE gone AS (a int, b text, c boolean)",
    "ALTER TYPE gone DROP ATTRIBUTE b",
    "CREATE DOMAIN pairs AS pair",
    "CREATE TABLE other (x int, y text)",
    "CREATE TABLE composites (id int PRIMARY KEY, m mixed, g gone, l pair[], o other, d pairs, u pair UNIQUE)",
    "CREATE TABLE composite_bag (p pair)",
    "ALTER TABLE composite_bag REPLICA IDENTITY FULL",
    "INSERT INTO composite_bag VALUES ('(1,a)'), ('(1,a)'), ('(,)'), (NULL)",
)
VALUES = (
    r"""ROW(1, 12345678901234567890.123456789012345678900, 0.1, true, E'a, (b) "c" \\ d\n\te😀', '\x00ff5c22',"""
    r""" '2024-03-31 02:30+02', '{"a": [1, "x"]}', ARRAY['NULL', NULL, 'a,b', '"'], ROW(1, 'x "y"'),"""
    " 9223372036854775807, 'NULL')",
    "ROW(-1, 'NaN', '-Infinity', false, '', '', 'infinity', 'null', '{}', ROW(NULL, NULL), NULL, ' a ')",
    "ROW(NULL, 0.00, '-0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "NULL",
)


def inserts(first: int) -> list[str]:
    rest = "'(7,t)', ARRAY['(1,a)', NULL, '(,\"\")']::pair[], '(1,a)', '(2,b)'"
    return [
        f"INSERT INTO composites VALUES ({first + number}, {value}, {rest}, '({first + number},k)')"
        for number, value in enumerate(VALUES)
    ]


@pytest.mark.one_case("mysql")
def test_composites_are_objects_with_the_names_of_their_fields(
    mysql_family: Server, logical_postgresql: Server, tmp_path: Path
) -> None:
    database, there = create_database(logical_postgresql, "composites"), create_database(mysql_family, "composites")
    database.execute(*MADE, *inserts(1))
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    made.write_job('[target.options]\ncomposites = "json"\n')
    here, table = JobHere(made), TableId("public", "composites")

    def rows(columns: str, where: str = "1", of: str = "composites") -> list[tuple[object, ...]]:
        return made.target.query(f"SELECT {columns} FROM `{there.name}`.{of} WHERE {where} ORDER BY 1")

    def compare() -> None:
        for by_rows in (False, True):
            found = here.verify(by_rows=by_rows)
            assert found.identical, found

    here.load()
    here.stream()
    compare()
    database.execute(
        *inserts(1 + LATER),
        "DELETE FROM composite_bag WHERE ctid = '(0,1)'",
        "UPDATE composite_bag SET p = '(2,\"b c\")' WHERE p IS NOT DISTINCT FROM '(,)'::pair",
    )
    here.stream()
    compare()
    every = "m, g, l, o, d"
    assert rows(every, f"id < {LATER}") == rows(every, f"id > {LATER}") and len(rows("id")) == 2 * len(VALUES)

    fields = ", ".join(f"(m).{name}::text" for name in ('"q ""r"""' if '"' in one else one for one in FIELDS))
    expected = database.query(f"SELECT id, m IS DISTINCT FROM NULL, {fields} FROM composites ORDER BY id")
    for (id, is_there, *texts), (_, told) in zip(expected, rows("id, m"), strict=True):
        if not is_there:
            assert told is None
            continue
        found = json.loads(str(told), parse_int=str, parse_float=str)
        assert list(found) == list(FIELDS), id
        found["b"] = None if found["b"] is None else str(found["b"]).lower()
        assert list(found.values()) == texts, id
    assert rows("g, l, o, d, u", "id = 1") == [
        ('{"a": 7, "c": true}', '{"(1,a)",NULL,"(,\\"\\")"}', "(1,a)", "(2,b)", "(1,k)")
    ]
    bag = [None if told is None else json.loads(str(told)) for (told,) in rows("p", of="composite_bag")]
    assert sorted(bag, key=repr) == [None, {"x": 1, "y": "a"}, {"x": 2, "y": "b c"}]
    assert str(rows("m", "id = 1")[0][0]).startswith(
        '{"n": 1, "big": 12345678901234567890.123456789012345678900, "f": 0.1,'
    )
    made.target.execute(f'UPDATE `{there.name}`.composites SET g = \'{{"a": 8, "c": true}}\' WHERE id = 1')
    assert not here.verify().identical
    with closing(source_of(here.job).catalog()) as catalog, closing(source_of(here.job).snapshot("")) as snapshot:
        (schema,) = catalog.tables(lambda one: one == table).values()
        lines = b"".join(snapshot.lines_of(schema, ["id", "g", "u"], [{"id": "1"}], value_rules(here.job)))
    assert lines == b'1\t{"a": 7, "c": true}\t(1,k)\n'  # what a repair writes
    made.target.execute(f'UPDATE `{there.name}`.composites SET g = \'{{"a": 7, "c": true}}\' WHERE id = 1')

    made.write_job()  # texts again
    plan = here.job.plan()
    assert plan is not None and {str(one.table) for one in plan.loads} == {"public.composites", "public.composite_bag"}
    assert all(one.recreates for one in plan.loads)
    here.job.plan(execute=True)
    for name in ("composites", "composite_bag"):
        here.load(TableId("public", name), recreate=True)
    here.stream()
    compare()
    assert rows("g", "id = 1") == [("(7,t)",)]
    here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)


@pytest.mark.one_family
def test_a_value_with_fields_that_were_altered_is_its_text_until_the_table_is_loaded_again(
    mysql_family: Server, logical_postgresql: Server, tmp_path: Path
) -> None:
    database, there = create_database(logical_postgresql, "fields"), create_database(mysql_family, "fields")
    database.execute("CREATE TYPE pair AS (x int, y text)", "CREATE TABLE altered (id int PRIMARY KEY, p pair)")
    database.execute("INSERT INTO altered VALUES (1, '(1,a)')")
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    made.write_job('[target.options]\ncomposites = "json"\n')
    here, table = JobHere(made), TableId("public", "altered")
    here.load()
    here.stream()
    with closing(source_of(here.job).catalog()) as catalog:
        then = catalog.tables(lambda one: one == table)
    database.execute(
        "ALTER TYPE pair RENAME ATTRIBUTE y TO z",
        "ALTER TYPE pair ADD ATTRIBUTE n numeric(4,1)",
        "INSERT INTO altered VALUES (2, '(2,b,2.0)')",
    )
    here.stream()  # by a capture that has not noticed yet
    drifted = drift_of(source_of(here.job), log_options(here.job, trail_uuid(here.job) or ""), FOLLOWS_NOTHING, then)
    assert "composite public.pair was altered" in drifted[table]
    assert made.target.query(f"SELECT p FROM `{there.name}`.altered ORDER BY id") == [
        ('{"x": 1, "y": "a"}',),
        ('"(2,b,2.0)"',),
    ]
    here.load(table)
    here.stream()  # by a capture that has not noticed yet
    drifted = drift_of(source_of(here.job), log_options(here.job, trail_uuid(here.job) or ""), FOLLOWS_NOTHING, then)
    assert "composite public.pair was altered" in drifted[table]
    assert made.target.query(f"SELECT p FROM `{there.name}`.altered ORDER BY id") == [
        ('{"x": 1, "z": "a", "n": null}',),
        ('{"x": 2, "z": "b", "n": 2.0}',),
    ]
    assert here.verify(by_rows=True).identical
    here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)
