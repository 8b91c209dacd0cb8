"""Histories of two active sites: writers at both change the same few rows at once while the jobs' processes are killed. At the
end both sites are equal, and of each row stands the version that the rule says (K23).

A history is its seed: what each writer does, how large epochs are, and which process is killed after how many commits. How
writers and jobs meet is the machine's affair. Both jobs begin once; histories one after the other take keys of their
own, so that each takes a few seconds. What does not live here: one scenario step by step (live/test_two_active_sites.py).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch import failpoints
from anabranch.testing.databases import unique_name
from anabranch.testing.in_time import PATIENCE, NotInTime, in_time
from anabranch.testing.torture.local import Small
from anabranch.testing.torture.parts import Parts
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from rigs.both_ways import End, Way, rest, settle

PARTS = ("capture", "apply")
# The newest row stays whole; its stock is added up; in the third the site "other" wins, whatever the versions are.
TABLES = ROWS, SUMS, WINS = "site_rows", "site_sums", "site_wins"
STEPS = ((1, 1, 2, 0), (1, 0), (1, 1, 1, 1, 1, 2, 2, 3, 3, 0))
KEYS = 1000  # of one history, at most
EXITS = (
    "capture.appended",
    "capture.published",
    "apply.begun",
    "apply.merged",
    "apply.one",
    "apply.conflict",
    "apply.conflict.noted",
    "apply.commit",
    "apply.committed",
    "apply.pair.due",
    "apply.pair.cleared",
    "apply.pair.standing",
    "apply.pair.stood",
)
IN_THE_WAY = ("TargetBusy", "TargetUnavailable", "SourceUnavailable", "TrailLocked")
AGAIN = (
    "40001",
    "40P01",
    "23505",
    1205,
    1213,
    1062,
    1020,
)  # a deadlock, a row that came meanwhile: the writer begins anew


@dataclass(frozen=True)
class Fault:
    """A process that is killed once both sites have committed `after` transactions of this history. `way`: 0 or 1."""

    after: int
    way: int
    part: str


@dataclass(frozen=True)
class History:
    """Holds what was drawn from a seed. `scripts`: by site and writer, the transactions; each is a list of (key, step), where
    the step is added to the column that tells the newer row, and to its stock; 0: the row is deleted, if there is one."""

    seed: int
    scripts: tuple[tuple[tuple[tuple[tuple[int, int], ...], ...], ...], ...]
    faults: tuple[Fault, ...]
    exits: tuple[str, str]
    """By way, failpoints at which its processes end themselves."""
    small: Small

    @property
    def table(self) -> str:
        if self.seed % 2:
            return SUMS
        return random.Random(f"wins {self.seed}").choice((ROWS, WINS))

    @classmethod
    def drawn(cls, seed: int) -> History:
        chance = random.Random(f"two sites {seed}")
        keys = chance.choice((1, 2, 5, 40))
        steps = (1, 1, 1, 2, 3) if seed % 4 == 1 else random.Random(f"deletes {seed}").choice(STEPS)

        def script() -> tuple[tuple[tuple[int, int], ...], ...]:
            many = [chance.choice((1, 1, 2, 4)) for _ in range(chance.randrange(5, 25))]
            rows = [sorted(chance.sample(range(keys), min(keys, number))) for number in many]
            return tuple(tuple((key, chance.choice(steps)) for key in one) for one in rows)

        scripts = tuple(tuple(script() for _ in range(chance.choice((1, 1, 2)))) for _ in range(2))
        total = sum(len(one) for site in scripts for one in site)
        faults = sorted(
            (chance.randrange(1, total), chance.randrange(2), chance.choice(PARTS))
            for _ in range(chance.randrange(1, 4))
        )
        exits = [
            ";".join(f"{name}=exit@{chance.randrange(1, 4)}" for name in chance.sample(EXITS, chance.randrange(3)))
            for _ in range(2)
        ]
        small = Small(epoch_rows=chance.choice((1, 3, 10, 200_000)), segment_bytes=chance.choice((0, 4096)))
        return cls(seed, scripts, tuple(Fault(*one) for one in faults), (exits[0], exits[1]), small)


@dataclass
class Written:
    """Every version that was committed, by key: how new, whether at the site that wins, the text, its stock; for both
    sites. `sums`: what was added to the stock of each."""

    versions: dict[int, list[tuple[int, bool, str, int]]] = field(default_factory=dict)
    sums: dict[int, int] = field(default_factory=dict)
    deleted: dict[int, int] = field(default_factory=dict)
    """By key how new the newest row was that somebody has deleted, or was about to: who writes then makes it newer."""
    gone: dict[int, int] = field(default_factory=dict)
    """The same of deletes that were committed."""
    commits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rows: dict[int, tuple[int, bool, str, int]], sums: dict[int, int], gone: dict[int, int]) -> None:
        with self.lock:
            self.commits += 1
            for key, then in gone.items():
                self.gone[key] = max(then, self.gone.get(key, -1))
            for key, version in rows.items():
                self.versions.setdefault(key, []).append(version)
                self.sums[key] = self.sums.get(key, 0) + sums[key]

    def base(self, key: int) -> int:
        """Return what a new version of the row is to be greater than, whatever the site has of it, as a clock would say."""
        with self.lock:
            return self.deleted.get(key, 0)

    def deletes(self, key: int, then: int) -> None:
        with self.lock:
            self.deleted[key] = max(then, self.deleted.get(key, 0))

    def refuse_strange(self, rows: dict[int, tuple[int, str, int]], what: str) -> None:
        """Raise AssertionError for rows that cannot be where one site wins: each has what somebody has written there, as new as
        the newest at least, and none is gone that nobody has deleted."""
        for key, every in self.versions.items():
            assert key in rows or key in self.gone, f"{what}: row {key} is gone"
            if key in rows:
                then, text, stock = rows[key]
                assert (text, stock) in {(one[2], one[3]) for one in every}, f"{what}: row {key} has {text}, {stock}"
                assert then >= max(every)[0] or key in self.gone, f"{what}: row {key} is as old as {then}"
        assert rows.keys() <= self.versions.keys(), what

    def refuse_strange_sums(self, rows: dict[int, tuple[int, str, int]], what: str) -> None:
        """Raise AssertionError for rows that cannot be where stocks are added up: a row that nobody has deleted has the newest
        version and the whole sum, and any other one a version that somebody has written."""
        wanted = self.expected(SUMS)
        for key, every in self.versions.items():
            if key not in self.gone:
                assert rows.get(key) == wanted[key], f"{what}: row {key} is {rows.get(key)}, and not {wanted[key]}"
            elif key in rows:
                written = {(one[0], one[2]) for one in every}
                assert rows[key][:2] in written, f"{what}: nobody has written {rows[key]}, row {key}"
        assert rows.keys() <= self.versions.keys(), what

    def expected(self, table: str) -> dict[int, tuple[int, str, int]]:
        """The rule: the newest version of each row, of equally new ones the winning site's; the stock with it, or the sum."""
        newest = {key: max(every) for key, every in self.versions.items()}
        newest = {key: one for key, one in newest.items() if one[0] > self.gone.get(key, -1)}
        return {
            key: (then, text, self.sums[key] if table == SUMS else stock)
            for key, (then, _, text, stock) in newest.items()
        }


class Sites:
    """Two jobs that know of each other, begun. The first one's source wins where rows are equally new."""

    def __init__(self, one: End, other: End, directory: Path) -> None:
        for end in (one, other):
            kind = "timestamp(6)" if end.is_postgresql else "datetime(6)"
            for table in TABLES:
                columns = f"id int PRIMARY KEY, v varchar(80), changed {kind} NOT NULL, stock int NOT NULL"
                end.database.execute(f"CREATE TABLE {table} ({columns})")
                if end.is_postgresql:
                    end.database.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        names = unique_name("out"), unique_name("back")
        out, back = (
            Way(*ends, directory, name=names[number], leave_out=(names[1 - number],), tables="site_*")
            for number, ends in enumerate(((one, other), (other, one)))
        )
        out.write(text=_pair(one, "one", "other", back.name))
        back.write(text=f'[load]\nexisting = "take_over"\n{_pair(other, "other", "one", out.name)}')
        self.ways, self.directory = (out, back), directory
        out.here.load()
        back.job.arm()

    def run(self, history: History) -> Written:
        """Carry out a history, and compare. Raises AssertionError with the seed."""
        written, parts_follow = Written(), threading.Event()
        place = self.directory / f"history_{history.seed}"
        place.mkdir()
        with self._running(history, place) as parts, ThreadPoolExecutor(5) as pool:
            writers = [
                pool.submit(self._write, number, writer, script, history, written, parts_follow)
                for number, site in enumerate(history.scripts)
                for writer, script in enumerate(site)
            ]
            seen, until, left = -1, 0.0, list(history.faults)
            while left or not all(one.done() for one in writers):
                if seen != written.commits:  # a busy machine is slow, and does not stand still
                    seen, until = written.commits, time.monotonic() + 2 * PATIENCE
                in_time(until, f"history {history.seed}: writers do not end")
                if not parts_follow.is_set() and all(map(_follows, parts)):
                    parts_follow.set()
                if left and written.commits >= left[0].after:
                    fault = left.pop(0)
                    parts[fault.way].running[fault.part].kill()
                _begin_again(parts, history.seed)
                time.sleep(0.01)
            for one in writers:
                one.result()
        self._settle(seed=history.seed)
        try:
            self._compare(history, written)
        except AssertionError as error:
            error.add_note(f"what happened: {self._tell(history, written, place)}")
            raise
        return written

    @contextmanager
    def _running(self, history: History, place: Path) -> Iterator[list[Parts]]:
        """The processes of both jobs; at the end all are killed, wherever they are."""
        every = []
        for number, way in enumerate(self.ways):
            mine = place / str(number)
            mine.mkdir()
            failing = {failpoints.VARIABLE: history.exits[number], failpoints.LOG_VARIABLE: str(mine / "reached")}
            environment = {**way.here.made.environment, **failing}
            every.append(Parts(mine, way.job_file, environment, history.small, PARTS))
        try:
            for parts in every:
                parts.start()
            yield every
        finally:
            for parts in every:
                parts.kill()

    def _write(
        self,
        number: int,
        writer: int,
        script: tuple[tuple[tuple[int, int], ...], ...],
        history: History,
        written: Written,
        begin: threading.Event,
    ) -> None:
        """Be a writer: each transaction makes its rows newer than the site has them, under their locks."""
        end, seed = self.ways[number].source, history.seed
        chance = random.Random(f"pauses {seed} {number} {writer}")
        if not begin.wait(PATIENCE):
            raise NotInTime(f"history {seed}: the jobs do not begin")
        with closing(end.database.connect(autocommit=False)) as connection:
            for count, rows in enumerate(script):
                text = f"{seed}: {('one', 'other')[number]} {writer}.{count}"
                until = time.monotonic() + PATIENCE
                made = None
                while made is None:
                    in_time(until, f"history {seed}: {text} is never committed")
                    made = _transaction(
                        connection, history.table, rows, seed * KEYS, text, written, is_winner=not number
                    )
                written.add(*made)
                time.sleep(chance.choice((0.0, 0.0, 0.02, 0.1)))

    def _settle(self, seed: int) -> None:
        """Bring everything everywhere, until no delete is left to clear."""
        until = time.monotonic() + 2 * PATIENCE
        settle(*self.ways)
        while any(way.target.database.query("SELECT 1 FROM anabranch.pair_note") for way in self.ways):
            in_time(until, f"history {seed}: deletes are not cleared")
            rest(*self.ways, rounds=3)
        settle(*self.ways)

    def _compare(self, history: History, written: Written) -> None:
        seed, first = history.seed, history.seed * KEYS
        here, there = (
            {
                key: (instant.microsecond, text, stock)
                for key, text, instant, stock in end.database.query(
                    f"SELECT id, v, changed, stock FROM {history.table} WHERE id >= %s AND id < %s",
                    [first, first + KEYS],
                )
            }
            for end in (self.ways[0].source, self.ways[1].source)
        )
        assert here == there, f"history {seed}: the sites differ: {set(here.items()) ^ set(there.items())}"
        if history.table == WINS:
            written.refuse_strange(here, f"history {seed}")
            return
        if history.table == SUMS:
            written.refuse_strange_sums(here, f"history {seed}")
            return
        wanted = written.expected(history.table)
        assert here == wanted, f"history {seed}: {set(here.items()) ^ set(wanted.items())}"

    def _tell(self, history: History, written: Written, place: Path) -> Path:
        """Write down what both sites, both trails and the notes of conflicts have of a history's rows: nobody can make exactly
        this history happen again. Returns the file."""
        first, lines = history.seed * KEYS, [str(history)]
        lines += [
            f"row {key}: {sorted(some)}, deleted {written.gone.get(key)}" for key, some in written.versions.items()
        ]
        for number, way in enumerate(self.ways):
            rows = way.source.database.query(
                f"SELECT * FROM {history.table} WHERE id >= %s AND id < %s", [first, first + KEYS]
            )
            noted = way.target.database.query("SELECT * FROM anabranch.conflict WHERE job = %s", [way.name])
            lines += [f"site {number}: {sorted(rows)}", f"conflicts of {way.name}:"]
            lines += [str(one) for one in noted if any(str(key) in str(one) for key in written.versions)]
            lines += [f"trail of {way.name}:"]
            with TrailReader(way.job.trail) as trail:
                lines += [
                    str(row) for row in show(trail, after=0) if any(str(key) in str(row) for key in written.versions)
                ]
        file = place / "what_happened"
        file.write_text("\n".join(lines) + "\n")
        return file

    def drop(self) -> None:
        for way in self.ways:
            way.drop()


def _pair(source: End, site: str, other: str, twin: str) -> str:
    names = f'site = "{site}"\nother = "{other}"\nwinner = "one"\ntwin = "{twin}"\n'
    sums = f'[[tables]]\nname = "{source.schema}.{SUMS}"\ndelta = ["stock"]\n'
    wins = f'[[tables]]\nname = "{source.schema}.{WINS}"\nwins = "other"\n'
    return f'{sums}{wins}[pair]\n{names}newest_by = "changed"\n'


def _follows(parts: Parts) -> bool:
    """Return whether capture and apply of a job have begun to follow."""
    log = Path(parts.environment[failpoints.LOG_VARIABLE])
    reached = log.read_text().splitlines() if log.exists() else []
    return "capture.following" in reached and "apply.registered" in reached


def _begin_again(every: list[Parts], seed: int) -> None:
    """Start what a fault has ended, or an end that was in the way; anything else is wrong."""
    for parts in every:
        for name, one in list(parts.running.items()):
            ended = one.ended()
            if ended is None:
                continue
            is_killed = ended.code < 0 or ended.code == failpoints.EXIT_CODE
            assert is_killed or ended.error in IN_THE_WAY, f"history {seed}: {ended}\n{one.tail()}"
            parts.restart(name)


def _transaction(
    connection: Any,
    table: str,
    rows: tuple[tuple[int, int], ...],
    first: int,
    text: str,
    written: Written,
    is_winner: bool,
) -> tuple[dict[int, tuple[int, bool, str, int]], dict[int, int], dict[int, int]] | None:
    """Write the rows, and return by key the versions, what was added to sums, and the ages of those deleted; None where the
    server wants it begun anew."""
    made, sums, gone = {}, {}, {}
    with closing(connection.cursor()) as cursor:
        try:
            for place, newer in rows:
                key = first + place
                cursor.execute(f"SELECT changed, stock FROM {table} WHERE id = %s FOR UPDATE", [key])
                found = cursor.fetchall()
                if not newer:
                    if found:
                        gone[key] = found[0][0].microsecond
                        written.deletes(key, gone[key])
                        cursor.execute(f"DELETE FROM {table} WHERE id = %s", [key])
                    continue
                now, stock = (found[0][0].microsecond, found[0][1] + newer) if found else (0, newer)
                then = max(now, written.base(key)) + newer
                values = [text, f"2026-01-01 00:00:00.{then:06}", stock, key]
                if found:
                    cursor.execute(f"UPDATE {table} SET v = %s, changed = %s, stock = %s WHERE id = %s", values)
                else:
                    cursor.execute(f"INSERT INTO {table} (v, changed, stock, id) VALUES (%s, %s, %s, %s)", values)
                made[key], sums[key] = (then, is_winner, text, stock), newer
            connection.commit()
        except Exception as error:  # of three drivers; only a lost lock is tried again, all else passes
            connection.rollback()
            if is_lost(error):
                return None
            raise
    return made, sums, gone


def is_lost(error: Exception) -> bool:
    """Return whether the server has ended a transaction of two that were in each other's way: it is begun anew."""
    return getattr(error, "sqlstate", None) in AGAIN or bool(error.args and error.args[0] in AGAIN)
