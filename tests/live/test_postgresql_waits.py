"""Who is in our way at a PostgreSQL: said within ten seconds, by process, user and time, whatever it is that we wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from anabranch import waits
from anabranch.capture.definitions import DefinitionKeeper
from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.target.constraints import attempt
from anabranch.contracts import LogOptions
from anabranch.errors import SourceUnavailable
from anabranch.model.ids import TableId
from anabranch.model.steps import SetUpStep
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.trail import requests
from anabranch.trail.writer import TrailWriter
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES
from rigs.waiting import Doing, Told, told


@pytest.fixture
def heard() -> Iterator[Told]:
    with told() as found:
        yield found


@pytest.fixture
def shop(logical_postgresql: Server, source_database: Callable[[Server], Database]) -> Database:
    made = source_database(logical_postgresql)
    made.execute(
        "CREATE TABLE item (id int PRIMARY KEY, name text)",
        "CREATE TABLE loose (name text)",
        "INSERT INTO item VALUES (1, 'a')",
        f"ALTER DATABASE {made.name} SET lock_timeout = '1s'",
        f"ALTER DATABASE {made.name} SET statement_timeout = '2s'",
    )
    return made


def slot_of(database: Database) -> tuple[LogOptions, list[SetUpStep]]:
    options = LogOptions(1, 0.05, RULES, f"anabranch_waits_{database.name[-10:]}")
    connector = source(endpoint_of(database))
    with closing(connector.catalog()) as catalog:
        return options, connector.steps(options, catalog.tables(lambda table: True), begins=True)


def test_a_slot_waits_for_an_old_transaction_of_any_database(
    shop: Database, source_database: Callable[[Server], Database], heard: Told
) -> None:
    """Idle in another table of another database; the limits that an administrator gave the database end nothing."""
    other = source_database(shop.server)
    other.execute("CREATE TABLE elsewhere (id int)")
    options, steps = slot_of(shop)
    connector = source(endpoint_of(shop))
    with closing(other.connect(autocommit=False, application_name="forgotten")) as holder:
        holder.execute("INSERT INTO elsewhere VALUES (4711)")
        doing = Doing(lambda: connector.run(steps, float("inf")))
        pid = holder.info.backend_pid
        text = heard.first("the end of transaction", f"process {pid}", "application forgotten", "began at")
        assert f"user {other.server.user}" in text and f"database {other.name}" in text
        assert (
            "idle in transaction" in text
            and "last statement INSERT" in text
            and "4711" not in text.replace(str(pid), "")
        )
        assert doing.goes_on
        holder.rollback()
    doing.done()
    connector.remains(options.name, remove=True)


def test_a_slot_waits_for_a_prepared_transaction(shop: Database, heard: Told) -> None:
    """It has no process: its name is told, and what ends it."""
    options, steps = slot_of(shop)
    connector = source(endpoint_of(shop))
    gid = f"left-over-{shop.name[-10:]}"
    shop_session = shop.connect()
    with closing(shop_session):
        shop_session.execute("BEGIN")
        shop_session.execute("INSERT INTO loose VALUES ('x')")
        shop_session.execute(f"PREPARE TRANSACTION '{gid}'")
        doing = Doing(lambda: connector.run(steps[-1:], float("inf")))
        heard.first(f"prepared transaction '{gid}'", "ROLLBACK PREPARED")
        shop_session.execute(f"ROLLBACK PREPARED '{gid}'")
    doing.done()
    connector.remains(options.name, remove=True)


def test_locks_of_a_prepared_transaction_are_told(
    postgresql_source: Server, source_database: Callable[[Server], Database], heard: Told
) -> None:
    """It holds them under a number that is not its own, and that depends on who has prepared it."""
    there = source_database(postgresql_source)
    there.execute("CREATE TABLE item (id int PRIMARY KEY, name text)")
    gid = f"holds-{there.name[-10:]}"
    with (
        closing(there.connect()) as preparing,
        closing(connect(endpoint_of(there), "anabranch-test", autocommit=True)) as ours,
        ExitStack() as stack,
    ):
        begun = ("BEGIN", "INSERT INTO item VALUES (7, 'x')", "SELECT pg_advisory_xact_lock(7)")
        for statement in (*begun, f"PREPARE TRANSACTION '{gid}'"):
            preparing.execute(statement)
        stack.callback(preparing.execute, f"ROLLBACK PREPARED '{gid}'")  # else what waits for it would not end
        doing = Doing(lambda: ours.execute("SELECT pg_advisory_lock(7)"))
        heard.first("an advisory lock", f"prepared transaction '{gid}'", "ROLLBACK PREPARED")
        ours.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            doing.done()
        doing = Doing(lambda: ours.execute("TRUNCATE public.item"))
        heard.first("a lock (AccessExclusiveLock) on public.item", f"prepared transaction '{gid}'", "ROLLBACK PREPARED")
        stack.close()
        doing.done()


def test_a_replica_identity_waits_behind_a_lock(shop: Database, heard: Told) -> None:
    """In short tries, so that nobody queues behind us for long; and the one in the way is told all the same."""
    _, steps = slot_of(shop)
    assert "REPLICA IDENTITY FULL" in steps[0].sql
    connector = source(endpoint_of(shop))
    with closing(shop.connect(autocommit=False)) as holder:
        holder.execute("LOCK TABLE loose IN ACCESS SHARE MODE")
        doing = Doing(lambda: connector.run(steps[:1], float("inf")))
        heard.first("AccessExclusiveLock", "loose", f"process {holder.info.backend_pid}")
        holder.rollback()
    doing.done()


def test_who_is_asked_to_stop_does_not_wait_on(shop: Database, heard: Told) -> None:
    """The statement is ended, and the error says whom it waited for."""
    _, steps = slot_of(shop)
    connector = source(endpoint_of(shop))
    asked = []
    with closing(shop.connect(autocommit=False)) as holder, waits.ending_when(lambda: bool(asked)):
        holder.execute("INSERT INTO loose VALUES ('x')")
        doing = Doing(lambda: connector.run(steps[-1:], float("inf"), lambda: bool(asked)))
        heard.first(f"process {holder.info.backend_pid}")
        asked.append(1)
        with pytest.raises(SourceUnavailable):
            doing.done()
        assert str(holder.info.backend_pid) in waits.said()


@pytest.mark.parametrize(
    ("held", "waits_for", "words"),
    [
        ("SELECT * FROM item", "TRUNCATE item", ["a lock (AccessExclusiveLock) on public.item"]),
        ("UPDATE item SET name = 'b'", "UPDATE item SET name = 'c'", ["the end of transaction"]),
        ("INSERT INTO item VALUES (7, 'x')", "INSERT INTO item VALUES (7, 'y')", ["the end of transaction"]),
        ("SELECT pg_advisory_xact_lock(7)", "SELECT pg_advisory_lock(7)", ["an advisory lock"]),
        ("LOCK TABLE item IN ACCESS EXCLUSIVE MODE", "SELECT * FROM item", ["a lock (AccessShareLock) on public.item"]),
    ],
)
def test_every_kind_of_lock_names_its_holder(
    shop: Database, heard: Told, held: str, waits_for: str, words: list[str]
) -> None:
    with closing(connect(endpoint_of(shop), "anabranch-test", autocommit=True)) as ours:
        ours.execute("SET search_path = public")
        with closing(shop.connect(autocommit=False)) as holder:
            holder.execute(held)
            doing = Doing(lambda: ours.execute(waits_for.encode()))
            heard.first(*words, f"process {holder.info.backend_pid}")
            holder.rollback()
        doing.done()


def test_an_index_waits_for_older_transactions(shop: Database, heard: Told) -> None:
    """CREATE INDEX CONCURRENTLY, without end, for whoever may see the table as it was."""
    with (
        closing(connect(endpoint_of(shop), "anabranch-test", autocommit=True)) as ours,
        closing(shop.connect(autocommit=False)) as holder,
    ):
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT * FROM item")
        statement = "CREATE INDEX CONCURRENTLY ON public.item (name)"
        doing = Doing(lambda: attempt(ours, statement, "an index", patient=True))
        heard.first("the end of", f"process {holder.info.backend_pid}", "last statement SELECT")
        holder.rollback()
        doing.done()


def test_short_tries_of_a_definition_name_the_holder(shop: Database, heard: Told) -> None:
    with (
        closing(connect(endpoint_of(shop), "anabranch-test", autocommit=True)) as ours,
        closing(shop.connect(autocommit=False)) as holder,
    ):
        holder.execute("SELECT * FROM item")
        doing = Doing(lambda: attempt(ours, "ALTER TABLE public.item ADD UNIQUE (name)", "a key"))
        heard.first("public.item", f"process {holder.info.backend_pid}")
        holder.rollback()
        doing.done()


def test_a_user_without_rights_is_told_what_would_show_it(shop: Database, heard: Told) -> None:
    """The holder is another user, whose state the server hides."""
    role = f"r_{shop.name[-10:]}"
    shop.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'", f"GRANT ALL ON item TO {role}")
    limited = replace(endpoint_of(shop), user=role, password="secret")
    with closing(connect(limited, "anabranch-test", autocommit=True)) as ours:
        with closing(shop.connect(autocommit=False)) as holder:
            holder.execute("UPDATE item SET name = 'b'")
            doing = Doing(lambda: ours.execute("UPDATE public.item SET name = 'c'"))
            heard.first(f"process {holder.info.backend_pid}", "GRANT pg_monitor")
            holder.rollback()
        doing.done()
    shop.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_table_that_joins_names_whose_transactions_it_waits_for(shop: Database, tmp_path: Path, heard: Told) -> None:
    """No statement waits for them: capture looks again and again whether they have ended."""
    gid, item = f"joins-{shop.name[-10:]}", TableId("public", "item")
    with (
        TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="s", pack=False) as trail,
        closing(shop.connect(autocommit=False, application_name="forgotten")) as holder,
        closing(shop.connect()) as preparing,
        ExitStack() as stack,
    ):
        holder.execute("INSERT INTO loose VALUES ('x')")
        for statement in ("BEGIN", "INSERT INTO loose VALUES ('y')", f"PREPARE TRANSACTION '{gid}'"):
            preparing.execute(statement)
        stack.callback(preparing.execute, f"ROLLBACK PREPARED '{gid}'")  # else whatever makes a slot would wait for it
        keeper = DefinitionKeeper(source(endpoint_of(shop)), trail, lambda table: True, lambda: None)
        requests.request_table(tmp_path, item)
        keeper.requested.look()
        heard.first(f"process {holder.info.backend_pid} (", "application forgotten", f"prepared transaction '{gid}'")
        assert item not in keeper.requested.joining
        holder.rollback()
        keeper.requested.look()
        last = [text for _, text in heard.texts if text][-1]  # a session of another test may have said that it is over
        assert gid in last and "forgotten" not in last
        stack.close()
        keeper.requested.look()
        assert item in keeper.requested.joining and heard.is_over()
