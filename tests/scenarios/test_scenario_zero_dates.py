"""Dates that are none, in columns that may not be NULL: preflight, load, stream and verify with a date that stands for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario

SCHEMA = (
    "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
    "CREATE TABLE z (id int PRIMARY KEY, d date NOT NULL DEFAULT '0000-00-00', dt datetime(3) NOT NULL, ts timestamp NOT NULL,"
    " own datetime NOT NULL, UNIQUE KEY by_day (d, id))",
    "CREATE TABLE k (d date, n int, v varchar(9), PRIMARY KEY (d, n))",
    "INSERT INTO z VALUES (1, '0000-00-00', '2024-00-15 10:00:00', 0, '0000-00-00'),"
    " (2, '2024-02-29', '2024-01-15 10:00:00', '2024-01-15 10:00:00', '2024-02-29')",
    "INSERT INTO k VALUES ('0000-00-00', 1, 'load'), ('0000-00-00', 2, 'gone'), ('2024-01-01', 1, 'real')",
)
CHOICE = '[types]\nzero_date = "{}"\n'
OWN = """[[tables]]
name = "{0}.z"
columns.zero_date = {{ own = "infinity" }}
[[tables]]
name = "{0}.k"
columns.zero_date = {{ d = "-infinity" }}
"""


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_pitfall_32_zero_dates_that_may_not_be_null_get_a_date(
    mysql: Server, scenario: Callable[..., Scenario]
) -> None:
    made = scenario(mysql, *SCHEMA)
    stopped = made.start("run").wait(120)
    assert stopped.code == 5 and "columns.zero_date" in stopped.stderr and "job file" not in stopped.stderr
    assert "its defaults hold" in stopped.stderr
    made.write_job(OWN.format(made.schema) + CHOICE.format("0001-01-01"))
    preflight = made.cli("preflight").stdout
    for date, column in (("0001-01-01", "z.d"), ("-infinity", "k.d")):
        said = f'zero dates become {date} (zero_date = "{date}")'
        assert any(said in line and f"{made.schema}.{column}" in line for line in preflight.splitlines()), preflight
    run = made.start("run")
    made.wait_streaming(run)
    changes_of_such_rows_find_them(made, run)
    made.cli("verify", "--by-rows")
    made.cli("verify")
    run.stop()


def changes_of_such_rows_find_them(made: Scenario, run: Running) -> None:
    with made.source.connect() as connection, connection.cursor() as cursor:
        for statement in (
            "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
            "INSERT INTO z VALUES (3, '0000-00-00', '0000-00-00', '2024-01-15 10:00:00', '2023-02-31')",
            "UPDATE z SET d = '2024-00-00', ts = 0 WHERE id = 2",
            "UPDATE k SET v = 'stream' WHERE n = 1 AND d = '0000-00-00'",
            "DELETE FROM k WHERE n = 2",
            "UPDATE k SET d = '0000-00-00', n = 3 WHERE d = '2024-01-01'",
        ):
            cursor.execute(statement)
    made.sync(run)
    rows = made.target.query(
        "SELECT id, d::text, dt::text, (ts AT TIME ZONE 'UTC')::text, own::text FROM public.z ORDER BY id"
    )
    zero = "0001-01-01 00:00:00"
    assert rows == [
        (1, "0001-01-01", zero, zero, "infinity"),
        (2, "0001-01-01", "2024-01-15 10:00:00", zero, "2024-02-29 00:00:00"),
        (3, "0001-01-01", zero, "2024-01-15 10:00:00", "infinity"),
    ]
    assert made.target.query("SELECT d::text, n, v FROM public.k ORDER BY n") == [
        ("-infinity", 1, "stream"),
        ("-infinity", 3, "real"),
    ]
