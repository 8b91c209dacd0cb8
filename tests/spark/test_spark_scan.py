"""`preflight --scan` by Spark: what the job file's `[types]` changes, and a table with a filter, which Spark decides."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario

LOOSE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"
CHOSEN = """[types]
zero_date = "null"
nul = "strip"
[[tables]]
name = "{0}.days"
columns.zero_date = {{ d = "-infinity" }}
"""


def test_what_the_job_file_changes(spark: SparkSession, mysql: Server, scenario: Callable[..., Scenario]) -> None:
    """And rows that become equal by it; of a table with a filter only rows that pass are told."""
    made = scenario(
        mysql,
        LOOSE,
        "CREATE TABLE days (d date, n int, PRIMARY KEY (d, n))",
        "INSERT INTO days VALUES ('0000-00-00', 1), ('2024-00-00', 1), ('2024-01-01', 1)",
        "CREATE TABLE words (w varchar(9) COLLATE utf8mb4_bin PRIMARY KEY, d date)",
        "INSERT INTO words VALUES ('a', '0000-00-00'), ('a\\0', NULL), ('b', '2024-01-01')",
        "CREATE TABLE some (id int PRIMARY KEY, j json)",
        "INSERT INTO some VALUES (1, '[\"\\\\u0000\"]'), (20, '[\"\\\\u0000\"]'), (30, '[]')",
    )
    made.write_job(CHOSEN.format(made.schema) + f'[[tables]]\nname = "{made.schema}.some"\nwhere = "id > 10"\n')
    found = JobHere(made).job.scan()  # by the session of this process, as a notebook has one
    assert {(one.table.name, one.outcome.value, one.column, one.rows) for one in found.findings} == {
        ("days", "refused", "d", 1),
        ("days", "changed", "d", 1),
        ("words", "changed", "d", 1),
        ("words", "changed", "w", 1),
        ("words", "refused", "", 1),
        ("some", "refused", "j", 1),
    }, found.findings
    days, words = (
        "\n".join(f"{one.message} -> {one.hint} {one.decides}" for one in found.findings if one.table.name == table)
        for table in ("days", "words")
    )
    assert "it becomes -infinity" in days and "it becomes NULL" in words
    assert "line 10" in words and '"strip"' in words
    (filtered,) = (one for one in found.tables if one.table.name == "some")
    assert filtered.not_seen == ("values that [types] changes: the table has a filter",)
    assert {one.table.name: one.rows for one in found.tables} == {"days": 3, "words": 3, "some": 2, "scenario_mark": 0}
