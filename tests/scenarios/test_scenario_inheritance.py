"""Tables that inherit from each other at a PostgreSQL: each has at the target what ONLY shows of it, loaded, streamed and
verified, whether the rules include its children or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import quote
from rigs.scenario_postgresql import FromPostgres

SCHEMA = (
    "CREATE TABLE base (id serial PRIMARY KEY, v text)",
    "CREATE TABLE child (more int) INHERITS (base)",  # without a key, as it does not inherit any
    "CREATE TABLE grandchild (PRIMARY KEY (id), even_more int) INHERITS (child)",
    "CREATE TABLE second (id int, v text, own int)",
    "CREATE TABLE both_ways (PRIMARY KEY (id)) INHERITS (base, second)",
    "CREATE TABLE keyless (a int, b text)",
    "CREATE TABLE keyless_child () INHERITS (keyless)",
    "CREATE TABLE hidden_child (secret text) INHERITS (base)",
    "CREATE TABLE later (id int PRIMARY KEY, v text)",
    "INSERT INTO base (v) SELECT 'b' || g FROM generate_series(1, 40) g",
    "INSERT INTO child (v, more) SELECT 'c' || g, g FROM generate_series(1, 30) g",
    "INSERT INTO grandchild (v, more) SELECT 'g' || g, g FROM generate_series(1, 20) g",
    "INSERT INTO second SELECT g, 's' FROM generate_series(1, 10) g",
    "INSERT INTO both_ways (v) SELECT 'w' FROM generate_series(1, 10) g",
    "INSERT INTO keyless SELECT g % 3, 'k' FROM generate_series(1, 9) g",
    "INSERT INTO keyless_child SELECT g % 3, 'k' FROM generate_series(1, 9) g",
    "INSERT INTO hidden_child (v) SELECT 'h' FROM generate_series(1, 10) g",
    "INSERT INTO later SELECT g, 'l' FROM generate_series(1, 10) g",
)
# Through parents, which the server carries into their children.
CHANGES = (
    "UPDATE base SET v = v || '!' WHERE id % 3 = 0",
    "DELETE FROM base WHERE id % 7 = 0",
    "UPDATE ONLY base SET v = 'only' WHERE id % 5 = 0",
    "UPDATE keyless SET b = 'n' WHERE a = 1",
    "DELETE FROM keyless WHERE a = 2",
    "DELETE FROM second WHERE id = 3",
    "INSERT INTO child (v, more) VALUES ('new', 1)",
    "UPDATE hidden_child SET v = 'still written'",  # nobody publishes it: it has no identity
    "DELETE FROM hidden_child WHERE v = 'never'",
    # Of a table that is not truncated: its columns' rows are written again, and with another file of its rows between two looks
    # that would be taken for ALTER TYPE … USING.
    "ALTER TABLE both_ways NO INHERIT base",
    "ALTER TABLE later ADD CONSTRAINT there CHECK (id > 0)",
    "UPDATE base SET v = v || '?' WHERE id % 4 = 0",
    "ALTER TABLE both_ways INHERIT base",
    "UPDATE base SET v = v || '.' WHERE id % 4 = 1",
)
TABLES = ("base", "child", "grandchild", "second", "both_ways", "keyless", "keyless_child", "later")
RULES = '[[rules]]\ninclude = ["public.*"]\nexclude = ["public.hidden_*"]\ntarget = "public.{table}"\n'


class Inheriting(FromPostgres):
    """Compares what each table has by itself."""

    def assert_own_rows(self) -> None:
        for table in TABLES:
            shown = self._shown(table, None)
            there = self._rows(self.source, f"ONLY public.{quote(table)}", shown, "TRUE")
            here = self._rows(self.target, f"public.{quote(table)}", shown, "TRUE")
            assert there == here, f"{table}: {len(there)} rows at the source, {len(here)} at the target"


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_each_table_of_an_inheritance_has_its_own_rows(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres]
) -> None:
    plain = scenario(logical_postgresql, *SCHEMA)
    made = Inheriting(plain.source, plain.target, plain.directory / "own", is_quick=plain.is_quick)
    try:
        made.write_job(rules=RULES)
        preflight_says_it(made)
        running = made.start("run")
        made.wait_streaming(running)
        made.assert_own_rows()
        made.source.execute(*CHANGES)
        made.sync(running)
        made.assert_own_rows()
        assert set(made.states().values()) == {"streaming"}
        verified_by_sums_and_by_rows(made)
        a_truncate_takes_what_the_server_took(made)
        made.sync(running)
        made.assert_own_rows()
        made.cli("load", "--table", "public.base")
        made.wait_streaming(running)
        made.sync(running)
        made.assert_own_rows()
        running.stop()
    finally:
        made.close()


@pytest.mark.quick
@pytest.mark.servers
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "decoder", ["pgoutput", *(pytest.param(name, marks=pytest.mark.long) for name in ("wal2json", "decoderbufs"))]
)
def test_each_table_of_an_inheritance_has_its_own_rows_with_every_decoder(
    postgresql15: Server, scenario: Callable[..., FromPostgres], decoder: str
) -> None:
    plain = scenario(postgresql15, *SCHEMA)
    made = Inheriting(plain.source, plain.target, plain.directory / "own", is_quick=plain.is_quick)
    try:
        made.write_job(f'[capture]\ndecoder = "{decoder}"\n', rules=RULES)
        running = made.start("run")
        made.wait_streaming(running)
        made.source.execute(*CHANGES)
        a_truncate_takes_what_the_server_took(made)
        made.sync(running)
        made.assert_own_rows()
        assert set(made.states().values()) == {"streaming"}
        running.stop()
    finally:
        made.close()


def preflight_says_it(made: FromPostgres) -> None:
    found = made.cli("preflight").stdout
    assert "source.inheritance" in found and "public.hidden_child" in found, found


def verified_by_sums_and_by_rows(made: FromPostgres) -> None:
    assert made.cli("verify", "--json").json["identical"] is True
    assert made.cli("verify", "--by-rows", "--json").json["identical"] is True


def a_truncate_takes_what_the_server_took(made: Inheriting) -> None:
    made.source.execute("TRUNCATE ONLY keyless", "TRUNCATE child")
    assert made.source.query("SELECT count(*) FROM ONLY base")[0][0] > 0
