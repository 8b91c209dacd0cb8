"""Every type of PostgreSQL, by load and by log, to the letter, from each release that has it; values that were not touched stay
what they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.postgresql_types import rows_of, values_of
from rigs.scenario_postgresql import FromPostgres

Make = Callable[..., FromPostgres]


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_values_of_every_type_by_load_and_by_log(postgresql_source: Server, scenario: Make) -> None:
    values_here = values_of(int(postgresql_source.version.partition(".")[0]))
    tables = {f"t{number}": (type, values) for number, (type, values) in enumerate(values_here.items())}
    made = scenario(
        postgresql_source,
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v {type})" for name, (type, _) in tables.items()),
        *(f"INSERT INTO {name} VALUES {rows_of(type, values, 1)}" for name, (type, values) in tables.items()),
    )
    made.run_until_caught_up()
    made.assert_identical()
    made.source.execute(
        *(f"INSERT INTO {name} VALUES {rows_of(type, values, 100)}" for name, (type, values) in tables.items()),
        *(f"UPDATE {name} SET id = id + 1000 WHERE id = 1" for name in tables),
        *(f"UPDATE {name} SET v = (SELECT v FROM {name} WHERE id = 100) WHERE v IS NULL" for name in tables),
        *(f"DELETE FROM {name} WHERE id = 101" for name in tables),
    )
    made.run_until_caught_up()
    made.assert_identical()
    assert made.cli("verify", "--json", seconds=200).json["identical"] is True


@pytest.mark.quick
def test_pitfall_01_values_that_were_not_touched_stay(logical_postgresql: Server, scenario: Make) -> None:
    """Large values that an update leaves as they were are not in the log, whatever the identity; nor are they lost where the
    row came, moved or was loaded in the same epoch (pitfalls 2, 3)."""
    big = "(SELECT string_agg(md5((g * {0})::text), '') FROM generate_series(1, 300) g)"
    identities = {"usual": "DEFAULT", "whole": "FULL", "named": "USING INDEX named_other", "keyless": "FULL"}
    made = scenario(
        logical_postgresql,
        *(
            f"CREATE TABLE {table} (id int {'' if table == 'keyless' else 'PRIMARY KEY'}, other int NOT NULL, big text, n int)"
            for table in identities
        ),
        "CREATE UNIQUE INDEX named_other ON named (id, other)",
        *(f"ALTER TABLE {table} ALTER big SET STORAGE EXTERNAL" for table in identities),
        *(f"ALTER TABLE {table} REPLICA IDENTITY {identity}" for table, identity in identities.items()),
        *(
            f"INSERT INTO {table} SELECT g, g, {big.format('g.g')}, 0 FROM generate_series(1, 20) AS g(g)"
            for table in identities
        ),
    )
    made.run_until_caught_up()
    made.assert_identical()
    for table in identities:
        made.source.execute(
            f"UPDATE {table} SET n = n + 1 WHERE id <= 5",
            f"INSERT INTO {table} VALUES (100, 100, {big.format(7)}, 0)",
            f"UPDATE {table} SET n = 5 WHERE id = 100",
            f"UPDATE {table} SET id = id + 1000, n = 6 WHERE id IN (6, 100)",
            f"UPDATE {table} SET n = 7 WHERE id >= 1000",
            f"DELETE FROM {table} WHERE id = 7",
            f"INSERT INTO {table} VALUES (7, 7, {big.format(9)}, 1)",
            f"UPDATE {table} SET n = 2 WHERE id = 7",
            f"UPDATE {table} SET big = NULL WHERE id = 8",
            f"UPDATE {table} SET n = 3 WHERE id = 8",
            f"UPDATE {table} SET big = {big.format(11)} WHERE id = 9",
            f"UPDATE {table} SET id = 10000 - id WHERE id BETWEEN 10 AND 12",
        )
    made.run_until_caught_up()
    made.assert_identical()
