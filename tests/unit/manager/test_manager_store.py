"""What a manager keeps: jobs and their versions, who somebody is, what was done. SQLite, no server, no HTTP."""

from __future__ import annotations

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anabranch.errors import ConfigError, NotAllowed, OutOfDate, StateError, UnknownName
from anabranch.manager import Manager, lease
from anabranch.manager.callers import Caller, Role, patterns_of
from anabranch.manager.store import FILE, ManagerStore

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
JOB = """
name = "{name}"
[source]
url = "mysql://u:${{PW}}@127.0.0.1:1"
[target]
url = "postgresql://u:${{PW}}@127.0.0.1:1/db"
[[rules]]
include = ["shop.*"]
"""


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setenv("PW", "S3cret@")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    return Manager(tmp_path)


def text(name: str = "shop", more: str = "") -> str:
    return JOB.format(name=name) + more


def test_a_file_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database, but text that is long enough to be looked at" * 20)
    with pytest.raises(StateError, match=str(tmp_path)):
        ManagerStore(tmp_path)


def test_what_fails_inside_a_transaction_leaves_nothing(tmp_path: Path) -> None:
    store = ManagerStore(tmp_path)
    with pytest.raises(StateError), store.writing() as connection:
        connection.execute("INSERT INTO job VALUES ('a', 1, 0, 'now')")
        connection.execute("INSERT INTO job VALUES ('a', 1, 0, 'now')")
    assert store.rows("SELECT * FROM job") == []


def test_what_sqlite_refuses_is_an_error_of_ours_and_the_next_transaction_begins_anew(tmp_path: Path) -> None:
    store = ManagerStore(tmp_path)
    pages = store.rows("PRAGMA page_count")[0]["page_count"]
    store.rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateError, match="full"), store.writing() as connection:  # SQLite takes it back itself
        connection.execute("INSERT INTO job VALUES (?, 1, 0, 'now')", ("a" * 1_000_000,))
    store.rows("PRAGMA max_page_count = 100000")
    with store.writing() as connection:
        connection.execute("INSERT INTO job VALUES ('a', 1, 0, 'now')")
    assert len(store.rows("SELECT * FROM job")) == 1
    with pytest.raises(StateError, match="no such table"):
        store.rows("SELECT * FROM absent")


def test_jobs_are_read_anew_as_soon_as_anybody_has_written(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    manager.add(ADMIN, text())
    read: list[str] = []
    rows = ManagerStore.rows
    monkeypatch.setattr(
        ManagerStore, "rows", lambda store, query, *given: read.append(query) or rows(store, query, *given)
    )
    assert [job.name for job in manager.jobs.all()] == ["shop"]
    before = len(read)
    assert [job.name for job in manager.jobs.all()] == ["shop"]
    is_counting = manager.store.mark() is not None  # a server is asked each time
    assert (len(read) == before) is is_counting

    other = Manager(manager.home)
    other.add(ADMIN, text("other"))
    assert [job.name for job in manager.jobs.all()] == ["other", "shop"]
    manager.jobs.want("shop", True)
    assert [job.is_wanted for job in manager.jobs.all()] == [False, True]
    with pytest.raises(RuntimeError), manager.store.writing() as connection:
        connection.execute("UPDATE job SET is_wanted = 0")
        assert not any(job.is_wanted for job in manager.jobs.all())
        raise RuntimeError
    assert [job.is_wanted for job in manager.jobs.all()] == [False, True], "what was taken back never was"


def test_changes_at_the_same_time_leave_the_newest_text_in_the_file(manager: Manager) -> None:
    manager.add(ADMIN, text())

    def change(number: int) -> None:
        for at in range(8):
            manager.change(ADMIN, "shop", text(more=f"# {number} {at}\n"))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(change, range(6)))
    assert manager.jobs.job("shop").version == 49
    assert manager.jobs.file("shop").read_text() == manager.jobs.version("shop").text
    left = manager.jobs.file("shop").with_name(".shop.toml.abc.tmp")  # of a manager that was killed
    left.touch()
    manager.jobs.write_files()
    assert [path.name for path in left.parent.iterdir()] == ["shop.toml"]


def test_who_waits_for_the_lease_goes_on_where_its_file_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LOOK_S", 0.01)
    waits = lease.Lease(tmp_path / "later")
    with ThreadPoolExecutor(1) as pool:
        is_held = pool.submit(waits.wait, threading.Event())
        (tmp_path / "later").mkdir()
        assert is_held.result(60)
    waits.close()


def test_the_state_and_the_files_are_for_their_user_alone(manager: Manager) -> None:
    manager.add(ADMIN, text())
    paths = [manager.store.path, manager.jobs.file("shop")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o600]


def test_a_job_has_versions_and_a_change_of_another_one_is_refused(manager: Manager) -> None:
    manager.add(ADMIN, text(), "first")
    manager.change(ADMIN, "shop", text(more="[apply]\nmode = 'transaction'\n"), "whole transactions", 1)
    with pytest.raises(OutOfDate, match="version 2, not 1"):
        manager.change(ADMIN, "shop", text(), expected=1)
    assert [(one.version, one.by, one.note) for one in manager.jobs.versions("shop")] == [
        (2, "ann", "whole transactions"),
        (1, "ann", "first"),
    ]
    assert "transaction" in manager.jobs.file("shop").read_text()
    entry = manager.audit.entries(job="shop")[0]
    assert (entry.action, entry.before) == ("job_changed", "version 1") and "+mode = 'transaction'" in (
        entry.after or ""
    )


def test_a_version_that_was_noted_and_not_written_is_written_by_the_next_manager(manager: Manager) -> None:
    manager.add(ADMIN, text())
    manager.jobs.file("shop").unlink()
    again = Manager(manager.home)
    again.jobs.write_files()
    assert again.jobs.file("shop").read_text() == text()


@pytest.mark.parametrize("wrong", [text("../etc"), "name = ", text(more="[aply]\n"), ""])
def test_a_file_that_is_wrong_is_no_job(manager: Manager, wrong: str) -> None:
    with pytest.raises(ConfigError) as found:
        manager.add(ADMIN, wrong)
    assert "S3cret@" not in str(found.value) and manager.jobs.all() == []


def test_a_job_keeps_its_name_and_a_name_is_given_once(manager: Manager) -> None:
    manager.add(ADMIN, text())
    with pytest.raises(ConfigError, match="already"):
        manager.add(ADMIN, text())
    with pytest.raises(ConfigError, match="not shop"):
        manager.change(ADMIN, "shop", text("other"))


def test_a_job_that_comes_again_goes_on_with_its_versions(manager: Manager) -> None:
    manager.add(ADMIN, text())
    manager.remove(ADMIN, "shop")
    assert manager.add(ADMIN, text()).version == 2


def test_a_job_that_may_not_be_seen_is_answered_like_none(manager: Manager) -> None:
    manager.add(ADMIN, text())
    other = Caller("bob", "token", Role.ADMINISTRATOR, ("web-*",))
    with pytest.raises(UnknownName) as hidden:
        manager.job(other, "shop")
    with pytest.raises(UnknownName) as absent:
        manager.job(ADMIN, "gone")
    assert str(hidden.value).replace("shop", "gone") == str(absent.value)
    assert manager.seen_by(other) == []


@pytest.mark.parametrize(("role", "allowed"), [(Role.VIEWER, 0), (Role.OPERATOR, 2), (Role.ADMINISTRATOR, 4)])
def test_a_role_may_do_what_the_ones_before_it_may(manager: Manager, role: Role, allowed: int) -> None:
    manager.add(ADMIN, text())
    who = Caller("eve", "token", role)
    deeds = [
        lambda: manager.start(who, "shop"),
        lambda: manager.stop(who, "shop"),
        lambda: manager.change(who, "shop", text()),
        lambda: manager.remove(who, "shop"),
    ]
    for deed in deeds[:allowed]:
        deed()
    for deed in deeds[allowed:]:
        with pytest.raises(NotAllowed):
            deed()


def test_a_token_counts_until_it_is_over_or_revoked(manager: Manager) -> None:
    made = manager.tokens.create(Role.VIEWER, "ci", patterns_of("a*, b"), "ann")
    found = manager.tokens.caller(made, "127.0.0.1")
    assert found == Caller("ci", "token", Role.VIEWER, ("a*", "b"), "127.0.0.1")
    assert manager.tokens.caller(made[:-1] + ("A" if made[-1] != "A" else "B"), "") is None
    assert manager.tokens.caller("", "") is None
    over = manager.tokens.create(Role.VIEWER, "", ("*",), "ann", days=-1)
    assert manager.tokens.caller(over, "") is None
    manager.tokens.revoke(next(one.id for one in manager.tokens.all() if one.name == "ci"))
    assert manager.tokens.caller(made, "") is None
    assert made.rpartition("_")[2].encode() not in manager.store.path.read_bytes()


def test_the_first_password_is_for_one_time_and_no_session_outlives_a_change(manager: Manager) -> None:
    password = manager.accounts.make_first() or ""
    assert manager.accounts.make_first() is None
    assert manager.accounts.checked("admin", "wrong") is manager.accounts.checked("nobody", password) is None
    user = manager.accounts.checked("admin", password)
    assert user is not None and user.must_change
    secret = manager.sessions.begin("admin")
    assert manager.sessions.find(secret) is not None
    with pytest.raises(ConfigError, match="fewer than 12"):
        manager.accounts.set_password("admin", "short")
    manager.accounts.set_password("admin", "four words are long")
    assert manager.sessions.find(secret) is None
    assert not manager.accounts.user("admin").must_change


def test_the_last_administrator_stays(manager: Manager) -> None:
    manager.accounts.make_first()
    manager.accounts.create("bob", "a password of bob", Role.OPERATOR, ("*",))
    with pytest.raises(ConfigError, match="last administrator"):
        manager.accounts.remove("admin")
    manager.accounts.remove("bob")
    with pytest.raises(UnknownName):
        manager.accounts.user("bob")


def test_the_audit_is_read_from_the_newest_on(manager: Manager) -> None:
    for name in ("a", "b", "c"):
        manager.add(ADMIN, text(name))
    newest, *_ = manager.audit.entries(limit=2)
    assert [one.job for one in manager.audit.entries(limit=2)] == ["c", "b"]
    assert [one.job for one in manager.audit.entries(before=newest.id - 1)] == ["a"]
