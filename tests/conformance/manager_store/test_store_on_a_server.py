"""Try what happens to a store on a server alone: lost lines, several machines, text that it cannot keep, rights."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.managing import STORE, opened
from anabranch.cli.serve import serve
from anabranch.errors import ConfigError, StateError
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from anabranch.manager.store import ManagerStore
from anabranch.manager.store_postgresql import APPLICATION, SCHEMA, PostgresKeeper, endpoint_of
from anabranch.testing.databases import Database
from rigs.endpoints import endpoint_of as endpoint_of_database
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    return tmp_path


def store(home: Path) -> ManagerStore:
    return ManagerStore(home / "_manager")


def cut_sessions(database: Database) -> None:
    database.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{APPLICATION}'"
        " AND datname = current_database()"
    )


def test_a_line_that_was_lost_is_opened_again_and_a_transaction_on_it_never_was(
    home: Path, target_database: Database
) -> None:
    kept = store(home)
    with pytest.raises(StateError, match="cannot be used now"), kept.writing() as connection:
        connection.execute("INSERT INTO job VALUES ('a', 1, 0, 'now')")
        cut_sessions(target_database)
        connection.execute("INSERT INTO job VALUES ('b', 1, 0, 'now')")
    assert kept.rows("SELECT * FROM job") == []
    cut_sessions(target_database)
    with pytest.raises(StateError), kept.writing() as connection:
        connection.execute("INSERT INTO job VALUES ('c', 1, 0, 'now')")
    with kept.writing() as connection:
        connection.execute("INSERT INTO job VALUES ('d', 1, 0, 'now')")
    assert [row["name"] for row in kept.rows("SELECT name FROM job")] == ["d"]


def test_an_error_that_is_swallowed_in_a_transaction_does_not_look_like_a_commit(home: Path) -> None:
    kept = store(home)
    with pytest.raises(StateError, match="took a change back"), kept.writing() as connection:
        connection.execute("INSERT INTO job VALUES ('a', 1, 0, 'now')")
        with pytest.raises(Exception, match="duplicate"):
            connection.execute("INSERT INTO job VALUES ('a', 1, 0, 'now')")
    assert kept.rows("SELECT * FROM job") == []


def test_many_managers_open_a_new_store_at_once(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: store(home), range(8)))
    counts = {tuple(row["name"] for row in one.rows("SELECT name FROM migration ORDER BY name")) for one in found}
    assert len(counts) == 1


def test_writers_of_two_machines_come_one_after_the_other(home: Path) -> None:
    first, second = store(home), store(home)
    with first.writing() as connection:
        connection.execute("INSERT INTO job VALUES ('a', 1, 0, 'now')")
    inside, goes_on, order = threading.Event(), threading.Event(), list[str]()

    def one() -> None:
        with first.writing() as connection:
            row = connection.execute("SELECT version FROM job").fetchone()
            inside.set()
            assert goes_on.wait(60)
            connection.execute("UPDATE job SET version = ?", (row["version"] + 1,))
            order.append("one")

    def other() -> None:
        assert inside.wait(60)
        goes_on.set()  # it can only be behind us if we wait for it
        with second.writing() as connection:
            row = connection.execute("SELECT version FROM job").fetchone()
            connection.execute("UPDATE job SET version = ?", (row["version"] + 1,))
            order.append("other")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(one), pool.submit(other)]:
            done.result(60)
    assert order == ["one", "other"] and first.rows("SELECT version FROM job") == [{"version": 3}]


def test_text_that_a_server_cannot_keep_is_refused_as_what_it_is(home: Path) -> None:
    manager = Manager(home)
    manager.add(ADMIN, text())
    with pytest.raises(ConfigError, match="zero character"):
        manager.change(ADMIN, "shop", text(more="# x"), note="a\0b")
    assert manager.jobs.job("shop").version == 1


def test_every_table_of_the_store_is_in_its_schema_and_no_other(home: Path, target_database: Database) -> None:
    kept = store(home)
    found = kept.rows("SELECT DISTINCT schemaname FROM pg_catalog.pg_tables WHERE schemaname NOT LIKE ?", ("pg_%",))
    assert {row["schemaname"] for row in found} == {SCHEMA, "information_schema"}


def test_a_user_without_the_right_is_told_which_one(home: Path, target_database: Database) -> None:
    target_database.execute("CREATE ROLE nobody_of_store LOGIN PASSWORD 'pw'")
    try:
        with pytest.raises(StateError, match="permission denied") as found:
            PostgresKeeper(endpoint_of_database(target_database, "nobody_of_store", "pw"))
        assert "CREATE on the database" in found.value.hint
    finally:
        target_database.execute("DROP ROLE nobody_of_store")


def test_a_server_that_is_away_is_an_error_with_its_place_and_without_the_password() -> None:
    with pytest.raises(StateError, match=r"127\.0\.0\.1:1") as found:
        PostgresKeeper(endpoint_of("postgresql://u:S3cret@127.0.0.1:1/db", {}))
    assert "S3cret" not in str(found.value)


@pytest.mark.parametrize("url", ["mysql://u:p@h/d", "file", "postgresql://h/d", "postgresql://u:${GONE}@h/d"])
def test_a_url_that_is_none_of_a_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="store"):
        endpoint_of(url, {})


def test_a_password_on_the_command_line_is_refused() -> None:
    with pytest.raises(ConfigError, match="every user of this machine") as found:
        serve.main(["--store", "postgresql://u:S3cret@127.0.0.1:1/db"], standalone_mode=False)
    assert "S3cret" not in str(found.value)


def test_commands_of_a_machine_find_the_store_by_the_variable(
    home: Path, target_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE, target_database.url)
    manager = opened()
    assert isinstance(manager.store.keeper, PostgresKeeper) and manager.supervision.is_shared
    manager.tokens.create(Role.VIEWER, "ci", ("*",), "ann")
    with closing(store(home)) as other:
        assert [row["name"] for row in other.rows("SELECT name FROM token")] == ["ci"]
    assert not (home / "_manager" / "manager.db").exists() and os.environ["ANABRANCH_HOME"] == str(home)


def test_neither_jobs_nor_what_they_start_see_the_store_and_the_variables_of_its_url(
    home: Path, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = target_database.url.partition("://")[2].partition("@")[0]
    user, _, password = login.partition(":")
    url = target_database.url.replace(login, f"{user}:${{STORE_PASSWORD}}")
    for given in (None, url, target_database.url):
        monkeypatch.setenv("STORE_PASSWORD", password)
        monkeypatch.setenv(STORE, url)
        with closing((manager := opened(given)).store):
            if not manager.jobs.all():
                manager.add(ADMIN, text())
            for name in (STORE, "STORE_PASSWORD"):
                assert name not in manager._environment("shop"), "of processes, operations and their programs"
                with pytest.raises(ConfigError, match=f"{name} is not set"):
                    manager.checked(ADMIN, text().replace("${PW}", f"${{{name}}}"))
            assert manager.jobs.environment("shop").of_process("", {"PATH": "/bin", STORE: url}) == {"PATH": "/bin"}
