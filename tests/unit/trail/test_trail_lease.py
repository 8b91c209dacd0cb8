"""The lease of a trail that captures share: whose turn it is, by clocks that nobody else sets, without a lock of the system."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.errors import TrailError, TrailLocked, TrailOvertaken
from anabranch.testing.in_time import until
from anabranch.trail import claims, lease, lock
from anabranch.trail.claims import Claim, holder, newest
from anabranch.trail.lease import Lease, Watch, writing_right
from anabranch.trail.lock import WriterLock

LONG = 3600.0  # seconds of a lease that runs out in no test
HOLDER = "import sys\nfrom pathlib import Path\nfrom anabranch.trail.lease import Lease\n" + (
    "Lease.take(Path(sys.argv[1]), float(sys.argv[2]))\nprint('has it', flush=True)\nsys.stdin.read()\n"
)


class Clock:
    """A clock that tells what it is set to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    return tmp_path / "trail"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody see whether the process of a claim is there, as on two machines."""
    monkeypatch.setattr(Claim, "has_died", False)
    monkeypatch.setattr(lease, "LOOK_S", 0.01)


@pytest.fixture
def process(trail: Path) -> Iterator[Callable[[float], subprocess.Popen[bytes]]]:
    """Starts processes that have the lease; ended with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(seconds: float) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", HOLDER, str(trail), str(seconds)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert started[-1].stdout and started[-1].stdout.readline() == b"has it\n"
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def stands_still(held: Lease) -> None:
    """Let a holder do nothing any more, and not end either."""
    held._done.set()
    held._thread.join()


def test_one_at_a_time_and_the_next_one_as_soon_as_it_is_given_up(trail: Path) -> None:
    first = Lease.take(trail, LONG)
    told: list[Claim] = []
    taken: list[Lease] = []
    waits = threading.Thread(target=lambda: taken.append(Lease.take(trail, LONG, tell=told.append)))
    waits.start()
    until(lambda: told, "the second one waits")
    assert told[0].who == f"process {os.getpid()} on {os.uname().nodename}"
    assert not taken
    first.close()
    waits.join()
    assert taken[0].epoch == first.epoch + 1
    taken[0].refuse_overtaken()
    assert len(told) == 1
    first.close()  # once more, which changes nothing
    assert holder(trail) == taken[0].claim
    taken[0].close()
    assert holder(trail) is None


def test_who_does_not_stand_by_is_refused_once_the_holder_is_seen_to_live(trail: Path) -> None:
    with closing(Lease.take(trail, 1.0)), pytest.raises(TrailLocked, match="is being written by process") as refused:
        writing_right(trail)
    assert "--standby" in refused.value.hint
    writing_right(trail).close()


@pytest.mark.usefixtures("elsewhere")
def test_a_counter_that_stands_still_for_the_lease_is_a_holder_that_is_gone(trail: Path) -> None:
    held = Lease.take(trail, 30.0)
    stands_still(held)
    clock = Clock(now=-5e9)  # what it shows says nothing: only how far it goes
    watch = Watch(trail, clock)
    for second in range(30):
        assert watch.in_the_way() == held.claim, second
        clock.now += 1.0
    assert watch.in_the_way() is None
    with closing(Lease.take(trail, 1.0, clock=iter(range(1000)).__next__)) as later:
        assert later.epoch == held.epoch + 1


@pytest.mark.usefixtures("elsewhere")
def test_each_sign_of_life_begins_the_time_anew(trail: Path) -> None:
    held = Lease.take(trail, 30.0)
    stands_still(held)
    clock = Clock()
    watch = Watch(trail, clock)
    for _ in range(40):
        for _ in range(29):
            assert watch.in_the_way() is not None
            clock.now += 1.0
        held._write()
    assert watch.has_moved


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("leap", [1e9, -1e9], ids=["ahead", "back"])
def test_a_clock_that_leaps_and_a_watcher_that_slept_take_nothing_over(trail: Path, leap: float) -> None:
    held = Lease.take(trail, 30.0)
    stands_still(held)
    clock = Clock()
    watch = Watch(trail, clock)
    for _ in range(20):
        clock.now += leap
        assert watch.in_the_way() is not None
    assert watch._unchanged <= 20 * lease.STRIDE_S


@pytest.mark.usefixtures("elsewhere")
def test_a_claim_that_cannot_be_read_is_waited_for_as_long_as_any(trail: Path) -> None:
    held = Lease.take(trail, 2.0)
    stands_still(held)
    path = claims.file_of(trail, held.epoch)
    path.write_bytes(path.read_bytes()[:100])
    clock = Clock()
    watch = Watch(trail, clock)
    for _ in range(int(lease.LEASE_S)):
        found = watch.in_the_way()
        assert found is not None and found.who == "process 0 on an unknown host"
        clock.now += 1.0
    assert watch.in_the_way() is None


def test_a_process_of_this_machine_that_was_killed_is_not_waited_for(
    trail: Path, process: Callable[[float], subprocess.Popen[bytes]]
) -> None:
    running = process(LONG)
    claim = holder(trail)
    assert claim is not None and claim.pid == running.pid
    running.kill()
    running.wait()
    assert holder(trail) is None
    with closing(Lease.take(trail, LONG)) as later:
        assert later.epoch == claim.epoch + 1


@pytest.mark.usefixtures("elsewhere")
def test_a_holder_that_wakes_up_is_told_who_has_taken_over(trail: Path) -> None:
    first = Lease.take(trail, 1.0)
    stands_still(first)
    first.refuse_overtaken()
    with closing(Lease.take(trail, LONG)) as second:
        for _ in range(2):
            with pytest.raises(
                TrailOvertaken, match=rf"taken over by process {os.getpid()} on .*, epoch {second.epoch}:"
            ):
                first.refuse_overtaken()
        first._write()  # what it still writes into its own claim is nobody's
        assert newest(trail) == (second.epoch, second.claim)
        second.refuse_overtaken()


@pytest.mark.usefixtures("elsewhere")
def test_the_thread_that_tells_of_life_ends_when_the_claim_is_gone(trail: Path) -> None:
    first = Lease.take(trail, 0.2)
    (claims.file_of(trail, first.epoch)).unlink()
    first._thread.join()
    with pytest.raises(TrailOvertaken):
        first.refuse_overtaken()


@pytest.mark.usefixtures("elsewhere")
def test_of_many_that_wait_one_gets_it(trail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the system's lock is no lock: `flock` says yes to everybody."""
    monkeypatch.setattr(lock, "_taken", lambda fd, how: True)
    stands_still(Lease.take(trail, 1.0))
    taken: list[Lease] = []
    ends = threading.Event()

    def wait() -> None:
        with suppress(TrailLocked):
            taken.append(Lease.take(trail, LONG, stop=ends.is_set))

    waiting = [threading.Thread(target=wait) for _ in range(8)]
    for one in waiting:
        one.start()
    until(lambda: taken, "one of them has it")
    for number in range(1, 9):  # each after the other, never two
        until(lambda number=number: len(taken) >= number, f"{number} of them have had it")
        assert len(taken) == number
        taken[-1].refuse_overtaken()
        taken[-1].close()
    ends.set()
    for one in waiting:
        one.join()
    assert [one.epoch for one in taken] == sorted({one.epoch for one in taken})
    assert taken[0].epoch == 2


def test_a_claim_that_was_decided_on_long_ago_is_given_up(trail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever fell asleep between looking and claiming wakes up when later epochs have come and this one has gone."""
    trail.mkdir()
    (trail / claims.FOLDER).mkdir()
    third: list[Lease] = []
    linked = claims._linked

    def sleeps(draft: Path, path: Path, text: bytes) -> bool:
        monkeypatch.setattr(claims, "_linked", linked)
        Lease.take(trail, LONG).close()
        Lease.take(trail, LONG).close()
        third.append(Lease.take(trail, LONG))
        return linked(draft, path, text)

    monkeypatch.setattr(claims, "_linked", sleeps)
    assert claims.claimed(trail, LONG, 0) is None
    third[0].refuse_overtaken()
    assert newest(trail) == (3, third[0].claim)
    third[0].close()


@pytest.mark.usefixtures("elsewhere")
def test_who_has_seen_a_claim_given_up_does_not_take_over_the_next_one(
    trail: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two wait for a claim and see it given up: the quicker one has the next epoch, and the slower one waits for that."""
    monkeypatch.setattr(lock, "_taken", lambda fd, how: True)
    Lease.take(trail, LONG).close()
    quicker, claimed = list[Lease](), claims.claimed

    def slow(directory: Path, lease_s: float, behind: int) -> Claim | None:
        monkeypatch.setattr(lease, "claimed", claimed)  # for the quicker one
        quicker.append(Lease.take(trail, LONG))
        return claimed(directory, lease_s, behind)

    monkeypatch.setattr(lease, "claimed", slow)
    with pytest.raises(TrailLocked):
        Lease.take(trail, LONG, stop=lambda: bool(quicker))
    quicker[0].refuse_overtaken()
    assert newest(trail) == (2, quicker[0].claim)
    quicker[0].close()


def test_a_trail_under_the_lock_alone_is_not_shared_under_its_writer(
    trail: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail.mkdir()
    with closing(WriterLock(trail)), pytest.raises(TrailLocked) as refused:
        Lease.take(trail, 0.1)
    assert "start it again with --standby" in refused.value.hint
    assert not lease.is_shared(trail)
    taken = WriterLock.__init__

    def meanwhile(self: WriterLock, directory: Path, timeout: float = 0.0) -> None:
        taken(self, directory, timeout)
        (directory / claims.FOLDER).mkdir(exist_ok=True)

    monkeypatch.setattr(WriterLock, "__init__", meanwhile)
    with closing(writing_right(trail)) as right:
        assert isinstance(right, Lease)


def test_the_lock_of_the_system_is_taken_beside_the_lease_when_it_is_free(trail: Path) -> None:
    trail.mkdir()
    (trail / claims.FOLDER).mkdir()
    stopped = WriterLock(trail)  # of a former holder that is stopped
    with closing(Lease.take(trail, 0.4)) as held:
        assert held._lock is None
        stopped.close()
        until(lambda: held._lock is not None, "it has the lock, too")
        assert lock.holder(trail / lock.FILE)
    assert not lock.holder(trail / lock.FILE)


def test_a_directory_that_has_gone_is_an_error_and_no_turn(trail: Path) -> None:
    held = Lease.take(trail, LONG)
    for path in sorted(trail.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    trail.rmdir()
    with pytest.raises(TrailOvertaken):
        held.refuse_overtaken()
    trail.mkdir()
    trail.chmod(0o500)
    if os.getuid():  # root may write there
        with pytest.raises(TrailError, match="cannot write"):
            Lease.take(trail, LONG)


def test_a_claim_of_a_later_release_is_read(trail: Path) -> None:
    with closing(Lease.take(trail, LONG)) as held:
        said = replace(held.claim, beat=7)
        path = claims.file_of(trail, held.epoch)
        text = claims.text_of(said).decode()
        body = text.partition(" ")[2].strip()[:-1] + ', "site": "north"}'
        import zlib

        path.write_bytes(b"%08x %s\n" % (zlib.crc32(body.encode()), body.encode()))
        assert newest(trail) == (held.epoch, said)
