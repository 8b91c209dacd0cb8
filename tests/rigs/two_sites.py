"""Histories of two active sites: writers at both change the same few rows at once while the jobs' processes are killed, lines
are cut and servers start again. At the end both sites are equal, and of each row stands the version that the rule says (K23).

Both jobs begin once; histories one after the other take keys of their own, so that each takes a few seconds. What does not live
here: what is drawn (two_sites_drawn.py), writers (two_sites_writer.py), what the end may be (two_sites_judged.py), one scenario
step by step (live/test_two_active_sites.py).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from anabranch import failpoints
from anabranch.rows.conflict import NotedConflict
from anabranch.testing.databases import unique_name
from anabranch.testing.in_time import PATIENCE, in_time
from anabranch.testing.torture.parts import Parts
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from rigs.both_ways import End, Way, rest, settle
from rigs.two_sites_drawn import CUT, KEYS, PARTS, ROWS, SUMS, TABLES, WINS, Fault, History
from rigs.two_sites_judged import Row, Written
from rigs.two_sites_writer import LEDGER, Writer, is_lost

__all__ = ["ROWS", "SUMS", "WINS", "History", "Sites", "is_lost"]
IN_THE_WAY = ("TargetBusy", "TargetUnavailable", "SourceUnavailable", "TrailLocked")
ENDED = re.compile(r"^\S+=exit\S* \d+$", re.MULTILINE)


class Sites:
    """Two jobs that know of each other, begun. The first one's source wins where rows are equally new."""

    def __init__(self, one: End, other: End, directory: Path) -> None:
        for end in (one, other):
            kind = "timestamp(6)" if end.is_postgresql else "datetime(6)"
            values = f"v varchar(80), changed {kind} NOT NULL, stock int NOT NULL"
            for table, columns in {**dict.fromkeys(TABLES, values), LEDGER: f"changed {kind} NOT NULL"}.items():
                end.database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})")
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
        self._come = 0
        out.here.load()
        back.job.arm()

    def run(self, history: History) -> Written:
        """Carry out a history, and compare. Raises AssertionError with the seed."""
        written, parts_follow = Written(), threading.Event()
        place = self.directory / f"history_{history.seed}"
        place.mkdir()
        with self._running(history, place) as parts, ThreadPoolExecutor(5) as pool:
            writers = [
                pool.submit(Writer(way.source.database, site, number, history, written, parts_follow).run)
                for site, way in enumerate(self.ways)
                for number in range(len(history.scripts[site]))
            ]
            seen, until, left = -1, 0.0, list(history.faults)
            while left or not all(one.done() for one in writers) or not self._have_all(history, written):
                come = written.commits + self._come
                if seen != come:  # a busy machine is slow, and does not stand still
                    seen, until = come, time.monotonic() + 3 * PATIENCE
                in_time(until, f"history {history.seed}: writers do not end, or jobs do not bring what they wrote")
                if not parts_follow.is_set() and all(map(_follows, parts)):
                    parts_follow.set()
                if left and written.commits >= left[0].after and self._may_befall(left[0], parts):
                    self._befalls(left.pop(0), parts, written)
                _begin_again(parts, history.seed)
                for one in writers:
                    if one.done():
                        one.result()
                time.sleep(0.01)
        for number in range(len(self.ways)):
            written.befell("exit", len(ENDED.findall((place / str(number) / "reached").read_text())))
        self._settle(seed=history.seed)
        try:
            self._compare(history, written)
        except AssertionError as error:
            error.add_note(f"what happened: {self._tell(history, written, place)}")
            raise
        return written

    def _may_befall(self, fault: Fault, parts: list[Parts]) -> bool:
        """Return whether there is something to kill, or to cut: on a slow machine it is a moment later."""
        if fault.what in PARTS:
            return parts[fault.at].running[fault.what].is_alive
        line = self.ways[fault.at].source.line
        return fault.what != CUT or (line is not None and line.is_used)

    def _befalls(self, fault: Fault, parts: list[Parts], written: Written) -> None:
        """Let a fault come about. A server that starts again is waited for, so that nobody is started meanwhile again and
        again."""
        end = self.ways[fault.at].source
        if fault.what in PARTS:
            running = parts[fault.at].running[fault.what]
            came = running.is_alive
            running.kill()
        elif fault.what == CUT:
            assert end.line is not None, "there is no line to cut"
            before = end.line.disturbed
            end.line.cut()
            came = end.line.disturbed > before
        else:
            end.database.server.stop(immediate=True)
            end.database.server.start()
            came = True
        written.befell(fault.kind, int(came))

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

    def _have_all(self, history: History, written: Written) -> bool:
        """Return whether the processes have brought every transaction to the other site, and cleared all deletes: until then
        they run, and meet their failpoints."""
        ledgers = [self._ledger(way.source, history) for way in self.ways]
        self._come = sum(map(len, ledgers))
        return all(one == written.transactions for one in ledgers) and not self._have_notes()

    def _have_notes(self) -> bool:
        return any(way.target.database.query("SELECT 1 FROM anabranch.pair_note") for way in self.ways)

    def _ledger(self, end: End, history: History) -> set[int]:
        first = history.seed * KEYS
        query = f"SELECT id FROM {LEDGER} WHERE id >= %s AND id < %s"
        return {number for (number,) in end.database.query(query, [first, first + KEYS])}

    def _settle(self, seed: int) -> None:
        """Bring everything everywhere, until no delete is left to clear."""
        until = time.monotonic() + 2 * PATIENCE
        settle(*self.ways)
        while self._have_notes():
            in_time(until, f"history {seed}: deletes are not cleared")
            rest(*self.ways, rounds=3)
        settle(*self.ways)

    def _compare(self, history: History, written: Written) -> None:
        """Both sites are equal, have every transaction and of each row what may stand; both jobs have noted what crossed."""
        what = f"history {history.seed}"
        here, there = (self._rows(way.source, history) for way in self.ways)
        assert here == there, f"{what}: the sites differ: {set(here.items()) ^ set(there.items())}"
        for way in self.ways:
            ledger = self._ledger(way.source, history)
            assert ledger == written.transactions, f"{what}: transactions {ledger ^ written.transactions}"
        written.refuse_strange(history.table, here, what)
        written.crossed = written.refuse_unnoted(history.table, [self._noted(way, history) for way in self.ways], what)

    def _rows(self, end: End, history: History) -> dict[int, Row]:
        first = history.seed * KEYS
        query = f"SELECT id, changed, v, stock FROM {history.table} WHERE id >= %s AND id < %s"
        every = end.database.query(query, [first, first + KEYS])
        return {key: (instant.microsecond, text, stock) for key, instant, text, stock in every}

    def _noted(self, way: Way, history: History) -> list[NotedConflict]:
        return [one for one in way.job.conflicts() if int(one.key["id"] or -1) // KEYS == history.seed]

    def _tell(self, history: History, written: Written, place: Path) -> Path:
        """Write down what both sites, both trails and the notes of conflicts have of a history's rows: nobody can make exactly
        this history happen again. Returns the file."""
        first, lines = history.seed * KEYS, [str(history)]
        for key, done in written.keys.items():
            lines += [f"row {key}:", *(f"  {one}" for site in (0, 1) for one in done.of(site))]
        for number, way in enumerate(self.ways):
            rows = way.source.database.query(
                f"SELECT * FROM {history.table} WHERE id >= %s AND id < %s", [first, first + KEYS]
            )
            lines += [f"site {number}: {sorted(rows)}", f"conflicts of {way.name}:"]
            lines += [str(one) for one in self._noted(way, history)]
            lines += [f"trail of {way.name}:"]
            with TrailReader(way.job.trail) as trail:
                lines += [str(row) for row in show(trail, after=0) if any(str(key) in str(row) for key in written.keys)]
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
