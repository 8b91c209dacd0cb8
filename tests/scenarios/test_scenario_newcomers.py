"""Tables that a source gets while a job stands still or runs: each is noticed, parked with its reason, and comes in with all
of its rows, also those that were written before anybody knew of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.databases import unique_name
from anabranch.testing.servers import Server
from rigs.postgresql_sessions import drop_slots
from rigs.scenario import Running, Scenario, wait_until
from rigs.scenario_postgresql import FromPostgres

RULES = '[[rules]]\ninclude = ["public.*", "shop.*"]\nexclude = ["public.left_*"]\ntarget = "{schema}.{table}"\n'
KNOWN = ("INSERT INTO known SELECT g, 'n' || g FROM generate_series(1, 50) g",)
NEVER = {"brief", "seen", "stored", "left_out", "far"}
WHILE_IT_STANDS = (
    "CREATE TABLE fresh (id int PRIMARY KEY, v text)",
    "INSERT INTO fresh VALUES (1, 'a')",
    "ALTER TABLE depot.parcel SET SCHEMA public",
    "INSERT INTO parcel VALUES (3, 'behind')",
    "ALTER TABLE left_behind RENAME TO renamed",
    "CREATE UNLOGGED TABLE dim (id int PRIMARY KEY)",
    "INSERT INTO dim VALUES (1)",
    # nothing of these is a table of the job's
    "CREATE TEMPORARY TABLE brief (id int)",
    "CREATE TABLE IF NOT EXISTS known (id int)",
    "CREATE VIEW seen AS SELECT * FROM known",
    "CREATE MATERIALIZED VIEW stored AS SELECT * FROM known",
    "CREATE TABLE left_out (id int)",
    "CREATE FOREIGN DATA WRAPPER nowhere",
    "CREATE SERVER elsewhere FOREIGN DATA WRAPPER nowhere",
    "CREATE FOREIGN TABLE far (id int) SERVER elsewhere",
    "CREATE TABLE short (id int)",
    "DROP TABLE short",
)
WHILE_IT_RUNS = (
    "CREATE TABLE keyless AS SELECT g % 3 AS a, 'k' AS b FROM generate_series(1, 9) g",
    "ALTER SCHEMA backroom RENAME TO shop",  # and names begin to match
    "INSERT INTO shop.shelf VALUES (2, 'moved')",
    "ALTER TABLE dim SET LOGGED",
    "CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100)",
    "INSERT INTO parted VALUES (1, 'p')",
    "ALTER TABLE root ATTACH PARTITION plain FOR VALUES FROM (100) TO (200)",
)


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_tables_that_come_later_at_a_postgresql(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres]
) -> None:
    made = scenario(
        logical_postgresql,
        "CREATE TABLE known (id int PRIMARY KEY, v text)",
        *KNOWN,
        "CREATE SCHEMA depot",
        "CREATE TABLE depot.parcel (id int PRIMARY KEY, v text)",
        "INSERT INTO depot.parcel VALUES (1, 'x'), (2, 'y')",
        "CREATE SCHEMA backroom",
        "CREATE TABLE backroom.shelf (id int PRIMARY KEY, v text)",
        "INSERT INTO backroom.shelf VALUES (1, 'old')",
        "CREATE TABLE left_behind (id int PRIMARY KEY)",
        "INSERT INTO left_behind VALUES (7)",
        "CREATE TABLE plain (id int PRIMARY KEY, v text)",
        "INSERT INTO plain VALUES (150, 'q')",
        "CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE root_1 PARTITION OF root FOR VALUES FROM (0) TO (100)",
    )
    made.write_job(rules=RULES)
    made.run_until_caught_up()
    assert set(made.states()) == {"known", "plain", "root", "scenario_mark"}
    with made.source.connect() as session:  # where it stays there for a while
        for statement in WHILE_IT_STANDS:
            session.execute(statement)
        they_are_noticed_at_the_next_start(made)
    running = made.start("run")
    made.sync(running)
    made.source.execute(*WHILE_IT_RUNS)
    they_are_noticed_within_a_minute(made, running)
    they_come_in_with_all_rows(made, running)
    running.stop()


def they_are_noticed_at_the_next_start(made: FromPostgres) -> None:
    result = made.run_until_caught_up(code=8)
    parked = {"fresh", "parcel", "renamed", "dim"}
    assert {name for name, state in made.states().items() if state == "parked"} == parked, made.states()
    assert all(f"public.{name}" in result.stderr for name in parked)
    assert "new at the source" in made.reason("fresh") and "load JOB --table public.fresh" in made.reason("fresh")
    assert "SET LOGGED" in made.reason("dim") and "SET LOGGED" not in made.reason("parcel")
    assert made.run_until_caught_up(code=8).stderr.count("table_parked") == 0, "known by now"


def they_are_noticed_within_a_minute(made: FromPostgres, running: Running) -> None:
    expected = {"fresh", "parcel", "renamed", "dim", "keyless", "shelf", "parted", "plain", "root"}
    wait_until(
        lambda: (
            {name for name, state in made.states().items() if state == "parked"} == expected
            and "SET LOGGED" not in made.reason("dim")
        ),
        60,
        "new tables are parked",
        lambda: f"{made.states()} {running.tail()}",
        running,
    )
    assert not NEVER & made.states().keys()
    assert "attached as a partition" in made.reason("root")
    assert "partition of public.root" in made.reason("plain")


def they_come_in_with_all_rows(made: FromPostgres, running: Running) -> None:
    back = [
        "public.fresh",
        "public.parcel",
        "public.renamed",
        "public.dim",
        "public.keyless",
        "shop.shelf",
        "public.parted",
    ]
    for table in back:
        made.cli("load", "--table", table)
    made.cli("load", "--table", "public.root", "--recreate")
    made.source.execute(
        "UPDATE fresh SET v = 'b'",
        "INSERT INTO parcel VALUES (4, 'streamed')",
        "DELETE FROM keyless WHERE a = 1",
        "UPDATE shop.shelf SET v = v || '!'",
        "INSERT INTO dim VALUES (2)",
        "INSERT INTO parted VALUES (2, 'later')",
        "UPDATE root SET v = 'r' WHERE id = 150",
    )
    made.wait_streaming(running)  # what joins has its part of the log by then
    made.sync(running)
    assert {name for name, state in made.states().items() if state == "parked"} == {"plain"}
    made.assert_identical("fresh", "parcel", "renamed", "dim", "keyless", "parted", "root", "known")
    query = "SELECT * FROM shop.shelf ORDER BY id"
    assert made.target.query(query) == made.source.query(query) == [(1, "old!"), (2, "moved!")]
    verified = made.cli("verify", "--json", code=None).json
    assert verified["identical"] is True, verified


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_a_table_that_the_user_may_not_read_or_publish_is_noticed_at_a_postgresql(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres]
) -> None:
    role = unique_name("repl")
    made = scenario(logical_postgresql, "CREATE TABLE known (id int PRIMARY KEY, v text)", *KNOWN, user=(role, "p"))
    made.source.execute(
        f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'p'",
        f"GRANT CREATE ON DATABASE {made.source.name} TO {role}",
        f"ALTER TABLE known OWNER TO {role}",
        f"ALTER TABLE scenario_mark OWNER TO {role}",
        "CREATE SCHEMA vault",
    )
    try:
        made.write_job(rules=RULES.replace("shop.*", "vault.*"))
        made.run_until_caught_up()
        made.source.execute("CREATE TABLE vault.hidden (id serial PRIMARY KEY)", "INSERT INTO vault.hidden VALUES (1)")
        made.run_until_caught_up(code=8)
        found = made.cli("preflight").stdout
        assert "only the owner postgres can publish vault.hidden" in found and f'GRANT "postgres" TO "{role}"' in found
        running = made.start("run")
        made.sync(running)
        _refused(made, "permission denied for schema vault")
        made.source.execute(f"GRANT USAGE ON SCHEMA vault TO {role}", f"GRANT SELECT ON vault.hidden TO {role}")
        _refused(made, "must be owner of table hidden")
        made.source.execute("INSERT INTO vault.hidden VALUES (2)", f"ALTER TABLE vault.hidden OWNER TO {role}")
        made.cli("load", "--table", "vault.hidden")
        made.source.execute("INSERT INTO vault.hidden VALUES (3)")
        made.wait_streaming(running)
        made.sync(running)
        assert made.target.query("SELECT id FROM vault.hidden ORDER BY 1") == [(1,), (2,), (3,)]
        running.stop()
    finally:
        made.close()
        made.source.execute(f"REASSIGN OWNED BY {role} TO postgres", f"DROP OWNED BY {role}")
        drop_slots(made.source)
        made.source.execute(f"DROP ROLE {role}")


def _refused(made: FromPostgres, why: str) -> None:
    result = made.cli("load", "--table", "vault.hidden", code=None)
    assert result.code not in (0, 1) and why in result.stderr, result.stderr


@pytest.mark.quick
@pytest.mark.timeout(1200)
@pytest.mark.one_family
def test_tables_that_come_later_behind_the_logs_back(mysql_family: Server, scenario: Callable[..., Scenario]) -> None:
    """What a grant lets in is in no statement of the log that says so; what is renamed into the rules is."""
    user = unique_name("repl")
    made = scenario(mysql_family, "CREATE TABLE known (id int PRIMARY KEY)", user=(user, "p"))
    depot, rights = unique_name("depot"), "REPLICATION SLAVE, REPLICATION CLIENT, RELOAD, PROCESS"
    made.source.execute(
        f"CREATE USER {user}@'%' IDENTIFIED BY 'p'",
        f"GRANT {rights} ON *.* TO {user}@'%'",
        *(f"GRANT SELECT ON {made.source.name}.{table} TO {user}@'%'" for table in ("known", "scenario_mark")),
        f"GRANT CREATE, INSERT ON anabranch.* TO {user}@'%'",
        f"CREATE DATABASE {depot}",
        f"CREATE TABLE {depot}.moved (id int PRIMARY KEY)",
        "CREATE TABLE hidden (id int PRIMARY KEY)",
        "INSERT INTO hidden VALUES (1)",
    )
    try:
        made.run_until_caught_up()
        made.source.execute(
            f"RENAME TABLE {depot}.moved TO moved",
            *(f"GRANT SELECT ON {made.source.name}.{table} TO {user}@'%'" for table in ("hidden", "moved")),
        )
        made.run_until_caught_up(code=8)
        assert {name for name, state in made.states().items() if state == "parked"} == {"hidden", "moved"}
        assert "new at the source" in made.reason("hidden") and "RENAME TABLE" in made.reason("moved")
        running = made.start("run")
        for table in ("hidden", "moved"):
            made.cli("load", "--table", f"{made.source.name}.{table}")
        made.source.execute("INSERT INTO hidden VALUES (2)", "INSERT INTO moved VALUES (3)")
        made.wait_streaming(running)
        made.sync(running)
        made.assert_identical("hidden", "moved", "known")
        running.stop()
    finally:
        made.close()
        made.source.execute(f"DROP DATABASE {depot}", f"DROP USER {user}@'%'")
