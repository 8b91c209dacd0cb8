"""`[target.options] arrays = "json"`: arrays of a PostgreSQL as JSON at a MySQL or MariaDB, loaded, followed, compared, and
back to texts when the job file says so.

The JSON of each text stands in tests/unit/rows/test_json_arrays.py.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from anabranch.view.opened import source_of
from anabranch.view.options import value_rules
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql

MANY = 150  # more rows than go without a staging table
MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'so so')",
    "CREATE TABLE arrays (id int PRIMARY KEY, i int[] NOT NULL DEFAULT '{}', t text[], b boolean[], d double precision[],"
    " n numeric[], x box[], u uuid[], j jsonb[], m mood[], k int[] UNIQUE, at timestamptz[], v int)",
    'INSERT INTO arrays VALUES (1, \'{1,NULL,3}\', \'{"a,b","c\\"d",NULL,"NULL","","back\\\\slash","tab\t\nnl",é😀,\\\\N}\','
    " '{t,f,NULL}', '{0.1,NaN,-Infinity,5e-324,-0,1e23}', '{1.0,1.00,NaN,1e-30}', '{(3,4),(1,2);(1,1),(0,0)}',"
    " '{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}', ARRAY['{\"a\": [1, \"x\"]}'::jsonb, 'null'], '{sad,\"so so\"}', '{1,2}',"
    " '{2024-03-31 02:30:00.5+02,-infinity}'),"
    " (2, '{{1,NULL},{3,4}}', '{}', '{}', '{{-0},{1e23}}', '{1.0}', NULL, '{}', NULL, NULL, '{2,1}', NULL),"
    " (3, '[-2:0]={1,2,3}', '[0:0][2:2]={{a}}', NULL, NULL, '{1.00}', NULL, NULL, NULL, NULL, NULL, NULL)",
    f"INSERT INTO arrays (id, i, t, k) SELECT n, ARRAY[n, -n], ARRAY['a' || n, NULL, 'b \"c'], ARRAY[n]"
    f" FROM generate_series(1001, {1000 + MANY}) AS n",
    "CREATE TABLE array_bag (i int[], t text[])",
    "ALTER TABLE array_bag REPLICA IDENTITY FULL",
    "INSERT INTO array_bag VALUES ('{1}', '{a,b}'), ('{1}', '{a,b}'), ('[0:0]={1}', '{\"a,b\"}'), (NULL, NULL)",
)
CHANGED = (
    "UPDATE arrays SET v = 1",
    "UPDATE arrays SET i = i || 7, t = array_append(t, E'new \\\\ \"x\"') WHERE id > 1000",
    "UPDATE arrays SET n = '{1.000}', k = '{9,9}' WHERE id = 3",
    "DELETE FROM arrays WHERE id = 1005",
    "INSERT INTO arrays (id, t) VALUES (5, '{NULL,\"null\",nULL}'), (6, ARRAY[repeat('😀\"', 3000)])",
    "DELETE FROM array_bag WHERE ctid = '(0,1)'",
    "UPDATE array_bag SET t = '{x}' WHERE t = '{\"a,b\"}'",
)


def compared(here: JobHere) -> None:
    for by_rows in (False, True):
        found = here.verify(by_rows=by_rows)
        assert found.identical, found


@pytest.mark.one_case("mariadb")
def test_arrays_are_json_and_in_keys_texts(mysql_family: Server, logical_postgresql: Server, tmp_path: Path) -> None:
    database, there = create_database(logical_postgresql, "arrays"), create_database(mysql_family, "arrays")
    database.execute(*MADE)
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    made.write_job('[target.options]\narrays = "json"\n')
    here, table = JobHere(made), TableId("public", "arrays")

    def at_target(columns: str, where: str) -> tuple[Any, ...]:
        return tuple(made.target.query(f"SELECT {columns} FROM `{there.name}`.arrays WHERE {where}")[0])

    def check_values() -> None:
        names = ("i", "t", "b", "d", "n", "x", "u", "j", "m", "at")
        valid = ", ".join(f"COUNT({name}), SUM(JSON_VALID({name}))" for name in names)
        counts = at_target(valid, "1")
        assert counts[::2] == tuple(int(one) for one in counts[1::2])
        plain = "WHERE array_ndims(i) IS NULL OR array_lower(i, 1) = 1"
        expected = dict(database.query(f"SELECT id, jsonb_build_array(i, b, m) FROM arrays {plain}"))
        rows = made.target.query(f"SELECT id, i, b, m FROM `{there.name}`.arrays")
        found = {id: [None if one is None else json.loads(one) for one in values] for id, *values in rows}
        assert {id: found[id] for id in expected} == expected

    here.load()
    here.stream()
    compared(here)
    assert at_target("i, n, k", "id = 1") == (
        "[1, null, 3]",
        '[1.0, 1.00, "NaN", 0.000000000000000000000000000001]',
        "{1,2}",
    )
    assert at_target("i, t", "id = 3") == ('{"[-2:0]": [1, 2, 3]}', '{"[0:0][2:2]": [["a"]]}')
    check_values()
    database.execute(*CHANGED)
    here.stream()
    compared(here)
    assert at_target("i, t, n", "id = 5") == ("[]", '[null, "null", null]', None)
    check_values()

    if mysql_family.name == "mysql":  # its own JSON would make 1.0 of 1.00; to a MariaDB it is the text
        made.target.execute(f"ALTER TABLE `{there.name}`.arrays MODIFY n json")
        database.execute("UPDATE arrays SET n = '{1.000,2}' WHERE id = 3")
        with pytest.raises(RowRefused, match="column n is json now, which rows are not written for"):
            here.stream()
        made.target.execute(f"ALTER TABLE `{there.name}`.arrays MODIFY n longtext")
        here.stream()
    made.target.execute(f"UPDATE `{there.name}`.arrays SET t = '[\"other\"]' WHERE id = 2")
    assert not here.verify().identical
    job = here.job
    with closing(source_of(job).catalog()) as catalog, closing(source_of(job).snapshot("")) as snapshot:
        (schema,) = catalog.tables(lambda one: one == table).values()
        lines = b"".join(snapshot.lines_of(schema, ["id", "i", "t", "k"], [{"id": "2"}], value_rules(job)))
    assert lines == b"2\t[[1, null], [3, 4]]\t[]\t{2,1}\n"  # what a repair writes

    made.write_job()  # texts again
    plan = here.job.plan()
    assert plan is not None and {str(one.table) for one in plan.loads} == {"public.arrays", "public.array_bag"}
    assert all(one.recreates for one in plan.loads)
    here.job.plan(execute=True)
    here.load(table, recreate=True)
    here.load(TableId("public", "array_bag"), recreate=True)
    here.stream()
    compared(here)
    assert at_target("i, k", "id = 1") == ("{1,NULL,3}", "{1,2}")
    here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)
