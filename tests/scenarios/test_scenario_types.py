"""Types beyond the common ones, and types of the job's own choice, through preflight, load, stream and verification."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
TYPES = (
    "CREATE TABLE place (id UUID PRIMARY KEY, at POINT NOT NULL, shape GEOMETRY, four INET4, six INET6, SPATIAL INDEX (at))",
    "INSERT INTO place VALUES ('123e4567-e89b-12d3-a456-426655440001', ST_GeomFromText('POINT(1 2)', 4326), NULL, '10.0.0.1',"
    " '::ffff:1.2.3.4')",
    "CREATE TABLE old (k VARCHAR(9) CHARACTER SET sjis PRIMARY KEY, n VARCHAR(20) CHARACTER SET koi8r,"
    " t TEXT CHARACTER SET gbk, e ENUM('да','нет') CHARACTER SET cp1251, c TEXT COMPRESSED, FULLTEXT INDEX (n))",
    "INSERT INTO old VALUES ('ソ\\\\', 'привет?', '你好?', 'нет', REPEAT('ä', 500)), ('b', '', NULL, 'да', '')",
    "CREATE TABLE priced (id INT PRIMARY KEY, price DECIMAL(9,2), flag TINYINT(1)) WITH SYSTEM VERSIONING",
    "INSERT INTO priced VALUES (1, 9.99, 1), (2, 5, 0), (3, 1, NULL)",
    "UPDATE priced SET price = 10 WHERE id = 1",
    "DELETE FROM priced WHERE id = 3",
    "CREATE TABLE chosen (id BIGINT UNSIGNED, token CHAR(36), at DATETIME(3), settings TEXT, `on` TINYINT(1),"
    " PRIMARY KEY (id, token))",
    "INSERT INTO chosen VALUES (1, '123E4567-E89B-12D3-A456-426655440001', '2024-03-31 02:30:00.125', '{\"b\": 1}', 1)",
)
CHOICES = """
[types.map]
"tinyint(1)" = "boolean"
"bigint unsigned" = "bigint"
"char(36)" = "uuid"
datetime = "timestamptz"
[[tables]]
name = "{0}.chosen"
columns.type = {{ settings = "jsonb" }}
"""
CHANGES = (
    "INSERT INTO place VALUES ('123e4567-e89b-72d3-a456-426655440002', ST_GeomFromText('POINT(3 4)', 4326),"
    " ST_GeomFromText('LINESTRING(0 0,1 1)'), NULL, '2001:db8::1')",
    "UPDATE place SET four = '255.0.0.1' WHERE four = '10.0.0.1'",
    "INSERT INTO old VALUES ('表', 'ёж', REPEAT('中', 300), 'да', REPEAT('ü', 300))",
    "UPDATE old SET t = '啊', e = 'да' WHERE k LIKE 'ソ%'",
    "UPDATE priced SET price = price + 1",
    "DELETE FROM priced WHERE id = 2",
    "INSERT INTO priced VALUES (3, 3, 1)",
    "DELETE HISTORY FROM priced",
    "INSERT INTO chosen VALUES (9223372036854775807, UUID(), '1999-12-31 23:59:59.999', '[]', 0)",
    "UPDATE chosen SET `on` = 0, settings = '{\"c\": [1.50]}' WHERE id = 1",
)


@pytest.mark.long
def test_pitfall_35_36_38_types_beyond_the_common_ones(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TYPES)
    made.write_job('[types.map]\n"bigint unsigned" = "uuid"\n')
    refused = made.cli("preflight", code=3)
    assert "uint64 cannot become uuid; possible: smallint, integer, bigint, numeric, text" in refused.stdout
    made.write_job(CHOICES.format(made.source.name))
    preflight_shows_what_becomes_of_them(made)
    run = made.start("run")
    made.wait_streaming(run)
    made.source.execute(*CHANGES)
    made.sync(run)
    the_target_has_what_the_source_shows(made)
    assert "identical: 5 of 5" in made.cli("verify").stdout
    made.source.execute("INSERT INTO chosen VALUES (5, UUID(), NULL, NULL, 2)")
    stopped = run.wait()
    assert stopped.code == 6 and "id=5" in stopped.stderr.replace(" ", "")


def preflight_shows_what_becomes_of_them(made: Scenario) -> None:
    told = made.cli("preflight").stdout
    for text in (
        "tinyint as boolean is exact: only 0 and 1",
        "char as uuid is lossy: letters become lower case",
        "geometry, point as bytea is widened: WKB",
        "the rows of now are replicated, their history is not",
        "it is of kind fulltext",
        "it is of kind spatial",
    ):
        assert text in told, told


def the_target_has_what_the_source_shows(made: Scenario) -> None:
    target, source = made.target.query, made.source.query
    assert target('SELECT k, n, t, e, c FROM public.old ORDER BY k COLLATE "C"') == sorted(source("SELECT * FROM old"))
    assert target("SELECT * FROM public.priced ORDER BY id") == [
        (id, price, bool(flag)) for id, price, flag in source("SELECT id, price, flag FROM priced ORDER BY id")
    ]
    assert target("SELECT id::text, encode(at, 'hex'), host(four), host(six) FROM public.place ORDER BY id") == [
        (
            "123e4567-e89b-12d3-a456-426655440001",
            "0101000020e6100000000000000000f03f0000000000000040",
            "255.0.0.1",
            "::ffff:1.2.3.4",
        ),
        (
            "123e4567-e89b-72d3-a456-426655440002",
            "0101000020e610000000000000000008400000000000001040",
            None,
            "2001:db8::1",
        ),
    ]
    found = target("SELECT id, token::text, at AT TIME ZONE 'UTC', settings, \"on\" FROM public.chosen ORDER BY id")
    (first, token, at, settings, on), last = found
    assert (first, token, settings, on) == (1, "123e4567-e89b-12d3-a456-426655440001", {"c": [1.5]}, False)
    assert at.isoformat() == "2024-03-31T02:30:00.125000" and last[0] == 2**63 - 1
