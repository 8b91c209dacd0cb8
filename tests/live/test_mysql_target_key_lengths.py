"""Keys of texts and bytes without a length, from a PostgreSQL to a MySQL or MariaDB: preflight asks the source how long their
values are, refuses what does not fit, and proposes what does; a longer value that comes later is refused, never cut.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source import lengths
from anabranch.errors import RowRefused
from anabranch.model.checks import CheckResult
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql

MADE = (
    "CREATE DOMAIN word AS text",
    "CREATE TABLE shorter (k text PRIMARY KEY, b bytea NOT NULL UNIQUE, w word UNIQUE)",
    "INSERT INTO shorter VALUES ('é😀', '\\x00ff00', 'ab'), ('k', '', NULL)",
    "CREATE TABLE empties (k text PRIMARY KEY, l int[] UNIQUE)",
    "CREATE TABLE pairs (a text, b text, n bigint, PRIMARY KEY (a, b))",
    "INSERT INTO pairs SELECT repeat(n::text, 500), repeat('b', 20), n FROM generate_series(1, 9) AS n",
    "CREATE TABLE longer (k text PRIMARY KEY)",
    "INSERT INTO longer VALUES (repeat('k', 769)), ('x')",
    "CREATE TABLE divided (k text PRIMARY KEY) PARTITION BY HASH (k)",
    "CREATE TABLE divided_1 PARTITION OF divided FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE divided_2 PARTITION OF divided FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    "INSERT INTO divided SELECT repeat('d', n) FROM generate_series(1, 30) AS n",
)
PROPOSED = 'columns.type = { "a" = "varchar(624)", "b" = "varchar(144)" }'  # 3,072 bytes in all, four to a character


@pytest.mark.one_case("mariadb")
def test_preflight_says_how_long_values_of_keys_are_and_refuses_what_does_not_fit(
    mysql_family: Server, logical_postgresql: Server, tmp_path: Path
) -> None:
    database, there = create_database(logical_postgresql, "lengths"), create_database(mysql_family, "lengths")
    database.execute(*MADE)
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    here = JobHere(made)

    def said(verdict: str) -> dict[str, list[CheckResult]]:
        found: dict[str, list[CheckResult]] = {}
        for result in here.job.preflight().results:
            if result.check == "target.key" and result.verdict == verdict:
                found.setdefault(result.table.removeprefix("public."), []).append(result)
        return found

    made.write_job()
    warned = {table: sorted(one.message for one in results) for table, results in said("warning").items()}
    stops = "needs: a longer value stops the job; the longest has"
    assert warned == {
        "shorter": [
            f"b becomes varbinary(3072), which unique index shorter_b_key {stops} 3 bytes now",
            f"k becomes varchar(768), which the primary key {stops} 2 characters now",
            f"w becomes varchar(768), which unique index shorter_w_key {stops} 2 characters now",
        ],
        "empties": [
            f"k becomes varchar(768), which the primary key {stops} 0 characters now",
            f"l becomes varchar(768), which unique index empties_l_key {stops} 0 characters now",
        ],
        "pairs": [f"b becomes varchar(384), which the primary key {stops} 20 characters now"],
        "divided": [f"k becomes varchar(768), which the primary key {stops} 30 characters now"],
    }
    refused = said("failed")
    assert {table: [one.message for one in results] for table, results in refused.items()} == {
        "pairs": ["a becomes varchar(384), which the primary key needs, and the longest value has 500 characters"],
        "longer": ["k becomes varchar(768), which the primary key needs, and the longest value has 769 characters"],
    }
    assert refused["pairs"][0].hint == f'[[tables]] name = "public.pairs", {PROPOSED}'
    assert "leave the table out" in refused["longer"][0].hint

    chosen = f'[[tables]]\nname = "public.pairs"\n{PROPOSED}\n'
    filtered = '[[tables]]\nname = "public.longer"\nwhere = "k = \'x\'"\n'
    made.write_job(chosen + filtered)  # rows that the job leaves out may be as long as they like
    assert not said("failed") and [one.table for one in said("warning")["longer"]] == ["public.longer"]
    made.write_job(f'{chosen}[apply]\non_error = "set_aside"\n')
    assert not said("failed") and "769" in said("warning")["longer"][0].message
    database.execute("DELETE FROM longer WHERE k <> 'x'")
    made.write_job(chosen)
    assert not said("failed") and not here.job.preflight().failed

    here.load()
    here.stream()
    assert here.verify(by_rows=True).identical
    database.execute("INSERT INTO pairs VALUES ('a', repeat('c', 144), 10)")
    here.stream()
    assert here.verify().identical
    database.execute("INSERT INTO pairs VALUES ('a', repeat('c', 145), 11)")
    with pytest.raises(RowRefused, match=r"public\.pairs.*\bb\b"):
        here.stream()
    assert made.target.query(f"SELECT COUNT(*), MAX(CHAR_LENGTH(b)) FROM `{there.name}`.pairs") == [(10, 144)]
    here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)


@pytest.mark.one_family
def test_a_large_table_is_not_asked(
    mysql_family: Server, logical_postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, there = create_database(logical_postgresql, "unasked"), create_database(mysql_family, "unasked")
    database.execute(
        "CREATE TABLE words (k text PRIMARY KEY)",
        "INSERT INTO words VALUES (repeat('k', 800))",
        "CREATE TABLE parts (k text, n int, PRIMARY KEY (k, n)) PARTITION BY LIST (n)",
        *(f"CREATE TABLE parts_{n} PARTITION OF parts FOR VALUES IN ({n})" for n in range(5)),
        "INSERT INTO parts SELECT repeat('k', 800), n FROM generate_series(0, 4) AS n",
    )
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    made.write_job()
    monkeypatch.setattr(
        lengths, "MOST_BYTES", 50_000
    )  # two or three pages a table or a partition; of these there are five
    results = [one for one in JobHere(made).job.preflight().results if one.check == "target.key"]
    assert {one.table: (one.verdict, "was not asked" in one.message) for one in results} == {
        "public.words": ("failed", False),
        "public.parts": ("warning", True),
    }
    drop_database(there)
    drop_database(database)
