"""Who is in our way at a MySQL or MariaDB: said within ten seconds, by session, user and time. Where the server does not say
who holds a lock, those are named that can have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest

from anabranch import waits
from anabranch.connectors.mysql.connection import ask, connect
from anabranch.errors import SourceUnavailable
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.waiting import Doing, Told, told


@dataclass(frozen=True)
class Kind:
    """What somebody holds, and what waits for that."""

    held: tuple[str, ...]
    waits_for: str
    words: str


KINDS = {
    "alter behind a reader": Kind(("SELECT * FROM item",), "ALTER TABLE item ADD x INT", "a metadata lock"),
    "read lock behind a writer": Kind(("UPDATE item SET name = 'b'",), "LOCK TABLES item READ", "a metadata lock"),
    "global lock behind a writer": Kind(("LOCK TABLES item WRITE",), "FLUSH TABLES WITH READ LOCK", "lock"),
    "read behind a write lock": Kind(("LOCK TABLES item WRITE",), "SELECT * FROM item", "lock"),
    "write behind the global lock": Kind(("FLUSH TABLES WITH READ LOCK",), "INSERT INTO item VALUES (9, 'x')", "lock"),
    "row": Kind(("UPDATE item SET name = 'b'",), "UPDATE item SET name = 'c'", "a lock on a row"),
}


@pytest.fixture
def heard() -> Iterator[Told]:
    with told() as found:
        yield found


@pytest.fixture(params=["mariadb", "mysql"])
def shop(request: pytest.FixtureRequest, source_database: Callable[[Server], Database]) -> Database:
    made = source_database(request.getfixturevalue(request.param))
    made.execute("CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40))", "INSERT INTO item VALUES (1, 'a')")
    return made


def waiting_for(ours: Any, statement: str) -> None:
    ask(ours, statement)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_lock_names_its_holder(shop: Database, heard: Told, kind: Kind) -> None:
    with closing(connect(replace(endpoint_of(shop), database=shop.name))) as ours:
        with closing(shop.connect(autocommit=False)) as holder:
            for statement in kind.held:
                ask(holder, statement)
            doing = Doing(lambda: waiting_for(ours, kind.waits_for))
            text = heard.first(kind.words, f"session {holder.thread_id()} (user {shop.server.user}")
            assert "since" in text
            assert doing.goes_on
        doing.done()


@pytest.mark.parametrize("shop", ["mysql"], indirect=True)
def test_the_global_lock_behind_a_long_select_names_it(shop: Database, heard: Told) -> None:
    """MySQL's waits until no table is in use; MariaDB's does not wait for those that are only read."""
    with closing(connect(replace(endpoint_of(shop), database=shop.name))) as ours, closing(shop.connect()) as reader:
        Doing(lambda: ask(reader, "SELECT SLEEP(600) FROM item"))
        until(lambda: any("SLEEP(600)" in str(row) for row in shop.query("SHOW PROCESSLIST")))
        doing = Doing(lambda: waiting_for(ours, "FLUSH TABLES WITH READ LOCK"))
        assert "since" in heard.first(
            "tables that are in use", f"session {reader.thread_id()} (user {shop.server.user}"
        )
        shop.execute(f"KILL QUERY {reader.thread_id()}")
        doing.done()
        ask(ours, "UNLOCK TABLES")


def test_a_prepared_transaction_holds_a_row(shop: Database, heard: Told) -> None:
    """It has no session: XA RECOVER lists it."""
    with closing(shop.connect()) as holder:
        for statement in ("XA START 'left'", "UPDATE item SET name = 'b'", "XA END 'left'", "XA PREPARE 'left'"):
            ask(holder, statement)
    with closing(connect(replace(endpoint_of(shop), database=shop.name))) as ours:
        doing = Doing(lambda: waiting_for(ours, "UPDATE item SET name = 'c'"))
        heard.first("a lock on a row", "a prepared XA transaction")
        shop.execute("XA ROLLBACK 'left'")
        doing.done()


@pytest.mark.one_case("mariadb")
def test_who_is_asked_to_stop_does_not_wait_on(shop: Database, heard: Told) -> None:
    asked: list[int] = []
    with (
        closing(connect(replace(endpoint_of(shop), database=shop.name))) as ours,
        closing(shop.connect(autocommit=False)) as holder,
        waits.ending_when(lambda: bool(asked)),
    ):
        ask(holder, "SELECT * FROM item")
        doing = Doing(lambda: waiting_for(ours, "ALTER TABLE item ADD x INT"))
        heard.first(f"session {holder.thread_id()}")
        asked.append(1)
        with pytest.raises(SourceUnavailable):
            doing.done()


def test_a_user_without_rights_is_told_what_would_show_it(shop: Database, heard: Told) -> None:
    user = f"u_{shop.name[-10:]}"
    shop.execute(f"CREATE USER {user} IDENTIFIED BY 'secret'", f"GRANT SELECT ON {shop.name}.* TO {user}")
    limited = replace(endpoint_of(shop), database=shop.name, user=user, password="secret")
    with closing(connect(limited)) as ours:
        with closing(shop.connect(autocommit=False)) as holder:
            ask(holder, "LOCK TABLES item WRITE")
            doing = Doing(lambda: waiting_for(ours, "SELECT * FROM item"))
            heard.first("a metadata lock", "GRANT PROCESS")
        doing.done()
    shop.execute(f"DROP USER {user}")


@pytest.mark.one_case("mysql")
def test_a_lock_that_was_not_given_names_who_has_it(shop: Database, heard: Told) -> None:
    """Who has it is asked while it is waited for: in the time that there is."""
    with (
        closing(connect(replace(endpoint_of(shop), database=shop.name))) as ours,
        closing(shop.connect(autocommit=False)) as holder,
    ):
        ask(holder, "SELECT * FROM item")
        seconds = iter((5, 20, 100, 200))

        def named() -> bool:
            ask(ours, f"SET SESSION lock_wait_timeout = {next(seconds)}")
            with pytest.raises(SourceUnavailable) as error:
                ask(ours, "ALTER TABLE item ADD x INT")
            return f"session {holder.thread_id()}" in error.value.hint

        until(named)
