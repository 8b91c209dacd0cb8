"""Operations of a manager: asked for, carried out a few at once, cancelled, found again. Stand-ins for commands, no server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.cli.main import cli
from anabranch.cli.offered import commands
from anabranch.errors import ConfigError, NotAllowed, UnknownName
from anabranch.manager import Manager, operations, recorded
from anabranch.manager.callers import Caller, Role
from anabranch.manager.operations import Operation
from anabranch.manager.verbs import OFFERED
from tests.unit.manager.test_manager_store import text
from tests.unit.manager.test_manager_supervision import wait_for

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
OPERATOR = Caller("olga", "token", Role.OPERATOR)
VIEWER = Caller("eve", "token", Role.VIEWER)
# Options of commands that a viewer may ask for, by what they are about: none of them changes a job or a running part.
LOOKS = frozenset(
    {
        *("--json", "--log-level", "--target"),
        *(
            "--all",
            "--at-target",
            "--from-log",
            "--remove",
            "--reverse",
        ),  # what is looked at; setup --remove shows statements
        *("--after", "--from", "--key", "--level", "--limit", "--position", "--since", "--table", "--tables", "--to"),
        *("--version", "--xid"),
        *("--dialect", "--login"),  # what is printed of definitions, and for whom
        *("--budget", "--by-rows", "--resume", "--sample", "--scan", "--seed", "--share"),  # how much is read
        "--force",  # of files that -o names, which is refused
    }
)
# Says its arguments, and waits where the file `hold` is in the job's home, until that goes or it is asked to end.
SAYS = """
import os, sys, time
print("said", *sys.argv[1:], flush=True)
print("é" * 40000 if "trail" in sys.argv else "", end="", flush=True)
while os.path.exists("hold"):
    time.sleep(0.01)
print("told", file=sys.stderr)
sys.exit(int(open("code").read()) if os.path.exists("code") else 0)
"""


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setattr(operations, "COMMAND", (sys.executable, "-S", "-c", SAYS))
    made = opened(tmp_path)
    made.add(ADMIN, text())
    (tmp_path / "shop").mkdir()
    yield made
    hold(made, False)
    for one in made.operations.all(ADMIN, "shop"):
        made.operations.cancel(ADMIN, "shop", one.id)
    wait_for(lambda: not made.operations.look())


def opened(home: Path) -> Manager:
    made = Manager(home)
    made.operations.offer(commands(cli))
    return made


def hold(manager: Manager, is_held: bool = True) -> None:
    path = manager.home / "shop" / "hold"
    path.touch() if is_held else path.unlink(missing_ok=True)


def ended(manager: Manager, found: Operation) -> Operation:
    wait_for(lambda: manager.operations.look() + 1 and state(manager, found) not in ("queued", "running"))
    return manager.operations.operation(ADMIN, "shop", found.id)


def state(manager: Manager, found: Operation) -> str:
    return manager.operations.operation(ADMIN, "shop", found.id).state


def said(manager: Manager, found: Operation, stream: str = "stdout") -> str:
    parts, offset = [], 0
    while True:
        piece = manager.operations.output(VIEWER, "shop", found.id, stream, offset)
        parts.append(piece.text)
        offset = piece.next
        if piece.is_complete:
            return "".join(parts)


def began(manager: Manager, found: Operation) -> bool:
    """Return whether the command itself has begun."""
    return "said" in manager.operations.output(ADMIN, "shop", found.id, "stdout").text


def test_what_a_former_store_has_left_is_no_part_of_an_operation(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        left = manager.store.directory / "operations" / str(number)
        left.mkdir(parents=True)
        for name, told in {
            "stdout": "of another job",
            "result": '{"code": 0, "cut": {"stdout": 0, "stderr": 0}}',
        }.items():
            (left / name).write_text(told)
        (left / "pid").write_text(str(os.getpid()))
    first, second = (manager.operations.ask(ADMIN, "shop", "verify", []) for _ in range(2))
    assert (first.id, said_now(manager, first), said_now(manager, second)) == (1, "", "")
    manager.operations.cancel(ADMIN, "shop", second.id)
    assert said(manager, second) == "", "it never began"
    monkeypatch.setattr(recorded, "RECORDER", (sys.executable, "-c", ""))  # killed before it could note anything
    found = ended(manager, first)
    assert (found.state, found.code, said_now(manager, first)) == ("lost", None, "")


def said_now(manager: Manager, found: Operation) -> str:
    return manager.operations.end_of_output(ADMIN, "shop", found.id, "stdout").text


def test_every_command_that_is_offered_is_one_of_a_job() -> None:
    table = commands(cli)
    assert [verb for verb in OFFERED if verb not in table] == []
    known = {verb: {name for option in table[verb].options for name in option.names} for verb in OFFERED}
    named = {verb: {*needs.more, *needs.looks} for verb, needs in OFFERED.items()}
    assert {verb: names - known[verb] for verb, names in named.items() if names - known[verb]} == {}
    assert {"run", "capture", "apply", "bundle", "rules import", "schema import"}.isdisjoint(OFFERED)


def test_each_option_of_a_viewers_command_only_looks_or_has_its_role() -> None:
    table = commands(cli)
    for verb, needs in OFFERED.items():
        if needs.role is Role.VIEWER:
            options = [option for option in table[verb].options if not option.is_path]
            names = {name for option in options for name in option.names}
            assert names - needs.more.keys() <= LOOKS, f"{verb}: say in verbs.py which role it needs, or list it here"
            assert not LOOKS & needs.more.keys()


def test_an_operation_is_a_command_with_its_job_and_ends_with_its_code(manager: Manager) -> None:
    found = manager.operations.ask(VIEWER, "shop", "verify", ["--tables", "shop.*", "--by-rows"])
    assert (found.state, found.code, found.asked_by) == ("queued", None, "eve")
    done = ended(manager, found)
    assert (done.state, done.code) == ("done", 0) and done.began and done.ended
    file = manager.jobs.file("shop")
    assert said(manager, done) == f"said verify --tables=shop.* --by-rows -- {file}\n"
    assert said(manager, done, "stderr") == "told\n"
    (manager.home / "shop" / "code").write_text("4")
    failed = ended(manager, manager.operations.ask(VIEWER, "shop", "rules explain", ["shop.t"]))
    assert (failed.state, failed.code) == ("failed", 4)
    assert said(manager, failed) == f"said rules explain -- {file} shop.t\n"
    assert [one.id for one in manager.operations.all(VIEWER, "shop")] == [failed.id, done.id]
    assert [one.id for one in manager.operations.all(VIEWER, "shop", before=failed.id)] == [done.id]


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("run", []),
        ("demo", []),
        ("bundle", []),
        ("rules import", ["x.toml"]),
        ("verify", ["/etc/passwd"]),
        ("verify", ["--", "--repair"]),
        ("verify", ["--table=x"]),
        ("verify", ["--tables"]),
        ("verify", ["--by-rows=1"]),
        ("metrics", ["-o", "/tmp/x"]),
        ("metrics", ["--output=/tmp/x"]),
        ("metrics", ["-o/tmp/x"]),
        ("rules export", ["-o", "x"]),
        ("parked show", []),
        ("status", ["--help"]),
        ("status", ["\0"]),
        ("trace", ["--since", "1" * 70000]),
    ],
)
def test_what_is_not_offered_or_names_a_file_is_refused(manager: Manager, verb: str, arguments: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        manager.operations.ask(ADMIN, "shop", verb, arguments)
    assert not isinstance(refused.value, NotAllowed) and manager.operations.all(ADMIN, "shop") == []


@pytest.mark.parametrize(
    ("verb", "arguments", "needed"),
    [
        ("verify", [], Role.VIEWER),
        ("verify", ["--repair"], Role.OPERATOR),
        ("load", ["--table=a.b"], Role.OPERATOR),
        ("cutover", ["--plan", "--json"], Role.VIEWER),
        ("cutover", ["--plan", "--abort"], Role.OPERATOR),
        ("cutover", ["--status", "--wait=1"], Role.OPERATOR),
        ("setup", [], Role.VIEWER),
        ("conflicts ls", ["--json"], Role.OPERATOR),
        ("parked ls", [], Role.OPERATOR),
        ("setup", ["--execute"], Role.ADMINISTRATOR),
        ("trace", ["--level", "debug"], Role.VIEWER),
        ("trace", ["--log", "debug"], Role.OPERATOR),
        ("trace", ["--record=debug"], Role.OPERATOR),
        ("drop", [], Role.ADMINISTRATOR),
        ("ddl replace", ["1", "--sql=DROP TABLE x"], Role.ADMINISTRATOR),
    ],
)
def test_a_command_needs_its_role(manager: Manager, verb: str, arguments: list[str], needed: Role) -> None:
    for who in (VIEWER, OPERATOR, ADMIN):
        if who.role.includes(needed):
            number = manager.operations.ask(who, "shop", verb, arguments).id
            manager.operations.cancel(who, "shop", number)
        else:
            with pytest.raises(NotAllowed):
                manager.operations.ask(who, "shop", verb, arguments)


def test_operations_of_jobs_that_may_not_be_seen_are_none(manager: Manager) -> None:
    manager.add(ADMIN, text("web"))
    found = manager.operations.ask(ADMIN, "shop", "status", [])
    other = Caller("bob", "token", Role.ADMINISTRATOR, ("web",))
    for name in ("shop", "web", "gone"):
        with pytest.raises(UnknownName):
            manager.operations.operation(other, name, found.id)
    with pytest.raises(UnknownName):
        manager.operations.ask(other, "shop", "status", [])
    with pytest.raises(UnknownName):
        manager.operations.cancel(ADMIN, "web", found.id)


def test_a_viewer_cancels_nothing_that_it_may_not_ask_for(manager: Manager) -> None:
    found = manager.operations.ask(OPERATOR, "shop", "load", [])
    with pytest.raises(NotAllowed):
        manager.operations.cancel(VIEWER, "shop", found.id)
    assert manager.operations.cancel(OPERATOR, "shop", found.id).state == "cancelled"


def test_what_an_operation_was_given_and_has_said_is_for_those_who_may_ask_for_it(manager: Manager) -> None:
    secret = ["1", "--sql=CREATE USER x IDENTIFIED BY 'hunter2'"]
    for verb, arguments, who in (("ddl replace", secret, ADMIN), ("reverse", [], ADMIN), ("load", [], OPERATOR)):
        found = ended(manager, manager.operations.ask(who, "shop", verb, arguments))
        for other in (VIEWER, OPERATOR, ADMIN):
            listed = [one for one in manager.operations.all(other, "shop") if one.id == found.id]
            assert listed == [manager.operations.operation(other, "shop", found.id)]
            if other.role.includes(who.role):
                assert listed == [found] and listed[0].arguments == tuple(arguments)
                assert "said" in manager.operations.output(other, "shop", found.id, "stdout").text
                continue
            assert listed[0].arguments == (("…",) if arguments else ())
            for stream in ("stdout", "stderr"):
                with pytest.raises(NotAllowed):
                    manager.operations.output(other, "shop", found.id, stream)


def test_an_operation_that_is_not_offered_any_more_is_for_administrators(manager: Manager) -> None:
    found = ended(manager, manager.operations.ask(VIEWER, "shop", "verify", ["--by-rows"]))
    with manager.store.writing() as connection:
        connection.execute("UPDATE operation SET verb = 'gone' WHERE id = ?", (found.id,))
    assert manager.operations.operation(OPERATOR, "shop", found.id).arguments == ("…",)
    assert manager.operations.operation(ADMIN, "shop", found.id).arguments == ("--by-rows",)
    for deed in (manager.operations.cancel, lambda *who: manager.operations.output(*who, "stdout")):
        with pytest.raises(NotAllowed):
            deed(OPERATOR, "shop", found.id)


def test_a_few_run_at_once_and_the_others_wait(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "AT_ONCE", 1)
    hold(manager)
    first, second = (manager.operations.ask(ADMIN, "shop", "status", []) for _ in range(2))
    manager.operations.look()
    wait_for(lambda: began(manager, first))
    manager.operations.look()
    assert (state(manager, first), state(manager, second)) == ("running", "queued")
    with pytest.raises(ConfigError, match="an operation of the job shop runs"):
        manager.remove(ADMIN, "shop")
    hold(manager, False)
    assert ended(manager, first).state == ended(manager, second).state == "done"
    monkeypatch.setattr(operations, "WAITING", 0)
    with pytest.raises(ConfigError, match="wait already"):
        manager.operations.ask(ADMIN, "shop", "status", [])


def test_a_cancelled_operation_is_asked_to_end(manager: Manager) -> None:
    hold(manager)
    found = manager.operations.ask(ADMIN, "shop", "status", [])
    manager.operations.look()
    wait_for(lambda: began(manager, found))
    assert manager.operations.cancel(OPERATOR, "shop", found.id).state == "running"
    done = ended(manager, found)
    assert (done.state, done.code, done.cancelled_by) == ("cancelled", 128 + signal.SIGTERM, "olga")
    assert manager.operations.cancel(OPERATOR, "shop", found.id) == done
    assert [entry.action for entry in manager.audit.entries(2)] == ["operation_cancelled", "operation_asked"]


def test_one_that_does_not_end_is_killed(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SAYS
    monkeypatch.setattr(operations, "COMMAND", (sys.executable, "-S", "-c", deaf))
    monkeypatch.setattr(operations, "KILL_S", 0.0)
    hold(manager)
    found = manager.operations.ask(ADMIN, "shop", "status", [])
    manager.operations.look()
    wait_for(lambda: began(manager, found))
    manager.operations.cancel(ADMIN, "shop", found.id)
    done = ended(manager, found)
    assert (done.state, done.code) == ("cancelled", 128 + signal.SIGKILL)


def test_the_next_manager_finds_what_runs_and_how_it_ended(manager: Manager) -> None:
    hold(manager)
    found = manager.operations.ask(ADMIN, "shop", "status", [])
    manager.operations.look()
    wait_for(lambda: began(manager, found))
    later = opened(manager.home)  # as after a kill -9: the former one has not ended anything
    later.operations.look()
    assert state(later, found) == "running"
    (manager.home / "shop" / "code").write_text("8")
    hold(manager, False)
    done = ended(later, found)
    assert (done.state, done.code) == ("failed", 8)
    assert said(later, found, "stderr") == "told\n"


def test_one_that_was_killed_with_its_manager_is_lost(manager: Manager) -> None:
    hold(manager)
    found = manager.operations.ask(ADMIN, "shop", "status", [])
    manager.operations.look()
    wait_for(lambda: began(manager, found))
    pid = int((manager.store.path.parent / "operations" / str(found.id) / "pid").read_text())
    os.killpg(pid, signal.SIGKILL)
    later = opened(manager.home)
    wait_for(lambda: later.operations.look() == 0)
    assert (state(later, found), later.operations.operation(ADMIN, "shop", found.id).code) == ("lost", None)


def test_one_that_was_marked_and_never_started_is_lost_and_not_started_again(manager: Manager) -> None:
    found = manager.operations.ask(ADMIN, "shop", "status", [])
    with manager.store.writing() as connection:  # killed between the mark and the start
        connection.execute("UPDATE operation SET state = 'running' WHERE id = ?", (found.id,))
    later = opened(manager.home)
    assert later.operations.look() == 0 and state(later, found) == "lost"
    assert said(later, found) == ""


def test_output_comes_in_pieces_of_whole_letters_and_what_is_too_much_is_counted(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = manager.operations.ask(ADMIN, "shop", "trail ls", [])
    ended(manager, found)
    first = f"said trail ls -- {manager.jobs.file('shop')}\n"
    assert said(manager, found) == first + "é" * 40000
    monkeypatch.setattr(recorded, "LIMIT", 1000)
    short = manager.operations.ask(ADMIN, "shop", "trail ls", [])
    ended(manager, short)
    piece = manager.operations.output(ADMIN, "shop", short.id, "stdout")
    assert (piece.next, piece.left_out, piece.is_complete) == (1000, len(first) + 80000 - 1000, True)


def test_the_oldest_are_forgotten_with_what_they_said(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "KEPT", 1)
    ended(manager, manager.operations.ask(ADMIN, "shop", "status", []))
    second = ended(manager, manager.operations.ask(ADMIN, "shop", "status", []))
    wait_for(lambda: manager.operations.look() + 1 and len(manager.operations.all(ADMIN, "shop")) == 1)
    assert manager.operations.all(ADMIN, "shop") == [second]
    assert len(list((manager.store.path.parent / "operations").iterdir())) == 1


def test_viewers_leave_a_place_to_others_and_no_job_has_all(manager: Manager) -> None:
    manager.add(ADMIN, text("web"))
    manager.add(ADMIN, text("new"))
    of_viewers = [manager.operations.ask(VIEWER, "shop", "verify", []) for _ in range(4)]
    more = [manager.operations.ask(VIEWER, "web", "verify", []) for _ in range(2)]
    urgent = [manager.operations.ask(OPERATOR, "shop", "status", []) for _ in range(2)]
    other = manager.operations.ask(OPERATOR, "new", "status", [])
    manager.operations.look()
    states = [
        manager.operations.operation(ADMIN, one.job, one.id).state for one in (*of_viewers, *more, *urgent, other)
    ]
    assert states == ["running"] * 2 + ["queued"] * 2 + ["running", "queued"] + ["running", "queued"] + ["queued"]
    wait_for(lambda: not manager.operations.look())
    assert {one.state for name in ("shop", "web", "new") for one in manager.operations.all(ADMIN, name)} == {"done"}


def test_what_waits_of_viewers_or_of_another_job_keeps_nobody_from_asking(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "WAITING", 4)
    manager.add(ADMIN, text("web"))
    for _ in range(2):
        manager.operations.ask(VIEWER, "shop", "verify", [])
    with pytest.raises(ConfigError, match="wait already"):
        manager.operations.ask(VIEWER, "shop", "verify", [])
    for _ in range(2):
        manager.operations.ask(OPERATOR, "shop", "status", [])
    with pytest.raises(ConfigError, match="wait already"):
        manager.operations.ask(OPERATOR, "shop", "status", [])
    manager.operations.ask(VIEWER, "web", "verify", [])
    wait_for(lambda: not manager.operations.look())


def test_viewers_and_other_jobs_push_out_no_record_of_others(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "KEPT", 1)
    manager.add(ADMIN, text("web"))
    kept = manager.operations.ask(OPERATOR, "shop", "status", [])
    first = [manager.operations.ask(VIEWER, "shop", "status", []) for _ in range(3)]
    manager.operations.ask(OPERATOR, "web", "status", [])
    wait_for(lambda: not manager.operations.look())
    assert [one.id for one in manager.operations.all(ADMIN, "shop")] == [first[-1].id, kept.id]
    assert len(manager.operations.all(ADMIN, "web")) == 1


def test_an_operation_that_cannot_be_started_holds_up_no_other(manager: Manager) -> None:
    stuck, other = (manager.operations.ask(OPERATOR, "shop", "status", []) for _ in range(2))
    place = manager.store.path.parent / "operations" / str(stuck.id)
    place.parent.mkdir(exist_ok=True)
    place.write_text("no directory")
    assert ended(manager, other).state == "done" and state(manager, stuck) == "queued"
    place.unlink()
    assert ended(manager, stuck).state == "done"
