"""The store behind `status`: parts, phases, positions, load progress, counters, slow epochs, errors; and which part has passed
which stretch of the trail when, for the last ones.

Several processes write at once. Nothing here may stop a pipeline: what goes wrong with the file is a warning in the
log, the file is made anew, and the next write fills it again. What does not live here: the SQL (`queries.sql`), whether a
process lives (`living.py`), room for a disk that is full (`room.py`), what a job's state is called (`job/states.py`).
"""

from __future__ import annotations

import fcntl
import json
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from anabranch import log
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.state import room
from anabranch.state.living import is_fresh, is_here, lives, mark_of

FILE = "state.db"
BUSY_S = 2.0  # longer than any of our writes; a stuck writer must not hold up a pipeline
FRESH_S = 20.0  # a wait that is not told again for so long is over, whatever became of who told it
PASSAGES = 2_000  # of each part, that are kept
VERSION = 4  # of the tables; another one is thrown away, it is only a view
SAMPLED = ("written", "applied", "log_end")  # positions of which is kept when they were where
LOOKED_AT = ("log_end",)  # of these, one that holds for the moment in which it is told, and not until it is told again
# Seconds between two samples, for a quarter of an hour; of older ones, for six hours, one a minute (`drop_samples`)
SAMPLE_S, KEPT_S = 5.0, 60.0
SHOWN = (
    "parts",
    "phases",
    "errors",
    "ends",
    "positions",
    "progress",
    "counters",
    "gauges",
    "slow",
    "waits",
    "doing",
)  # the queries of a snapshot
BUILDING = "building"  # what apply does: indexes and keys of tables
# Which earlier releases had not; the file may be read-only
ADDED = ("create_sample", "create_passage", "create_passage_of_part", "create_doing")
ROW_BYTES = 200  # of what is kept of the past, beside its longest text


class PlaceSample(NamedTuple):
    """A position that held at a moment, in seconds since 1970 by this machine's clock."""

    at: float
    text: str


@cache
def _queries() -> Mapping[str, str]:
    """Return the queries by name: once for all jobs that this process looks at."""
    text = files("anabranch.state").joinpath("queries.sql").read_text()
    return dict(re.findall(r"^-- name: (\w+)\n(.*?)(?=\n\n|\Z)", text, re.DOTALL | re.MULTILINE))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_text(microseconds: int) -> str | None:
    """Write microseconds since 1970 UTC in ISO 8601; None for 0 (unknown)."""
    if not microseconds:
        return None
    moment = datetime.fromtimestamp(microseconds // 1_000_000, UTC).replace(microsecond=microseconds % 1_000_000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


class StateStore:
    """The job's state file. One per process, usable from any thread of it. Nothing is opened before the first call."""

    def __init__(self, home: Path) -> None:
        self.task = ""  # of this process: job and part, for errors
        self.has_begun = False  # what was asked of this process: until then it may still be refused
        self.noted: Callable[[str, str, str, Mapping[str, Any] | None], None] = lambda *_: None  # of each new phase
        self._phase = ("", "")
        self._path = home / FILE
        self._queries = _queries()
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._parts: dict[str, dict[str, Any]] = {}  # of this process
        self._counts: dict[str, dict[str, int]] = {}  # by part: told, and not written yet
        self._gauges: dict[str, dict[str, int]] = {}
        self._places: dict[str, str] = {}  # by kind, as this process has told them
        self._sampled = self._kept = 0.0  # monotonic: when samples were taken last
        self._passages: dict[str, deque[dict[str, Any]]] = {}  # by part: told, and not written yet
        self._refused: dict[str, list[dict[str, Any]]] = {}  # by part: passages that the file had no room for
        self._mutex = threading.RLock()

    # --- writing ----------------------------------------------------------------------------------------------------

    def part(self, name: str, pid: int, host: str) -> None:
        """Note that a part of the job (capture, load, apply, run) has started.

        It is told again where the file did not accept it, or has been replaced: nothing else says whether the part
        runs.
        """
        with self._mutex:
            self._parts[name] = {"name": name, "pid": pid, "host": host, "at": _now(), "mark": mark_of(pid, host)}
            begun = ("clear_end", "clear_phase", "begin_counts", "clear_gauges", "clear_doing", "clear_waits")
            self._write_all([("put_part", self._parts[name]), *((query, {"name": name}) for query in begun)])

    def seen(self, name: str, stops: bool = False) -> None:
        """Note that a part of this process is still there, whether it was asked to stop, and what it has counted.

        The part comes back where another process of its kind has started beside it, and has ended: that one's entry
        was in its place, and is gone.
        """
        with self._mutex:
            part = self._parts.get(name)
            if part is not None:
                told = {"name": name, "pid": part["pid"], "host": part["host"], "stops": stops}
                seen = [("restore_part", part), ("see_part", told), ("clear_end_of_another", told)]
                self._write_all([*seen, *self._counted(name)])
                self._write_past(name, self._samples_due())

    def part_ended(self, name: str, pid: int, host: str, has_failed: bool = False) -> None:
        """Note that a part has ended. One that is gone without this has died."""
        with self._mutex:
            self._parts.pop(name, None)
            ended = {"name": name, "pid": pid, "host": host}
            end = ("put_end", {"name": name, "has_failed": has_failed})
            self._write_all([*self._counted(name), ("end_part", ended), end])
            self._write_past(name)

    def forget_gone(self, but: str = "") -> None:
        """Forget parts that are gone, and how others ended: they are of an earlier run, or were ended by this one."""
        for part in self._read("parts"):
            if part["name"] != but and not lives(part):
                self._write("forget_part", name=part["name"], pid=part["pid"])
        self._write("clear_ends")

    def count(self, part: str, counts: Mapping[str, int], gauges: Mapping[str, int] | None = None) -> None:
        """Keep what a part has counted since it started, and how much of something there is.

        Costs nothing: it is written with the next `seen`, and when the part ends.
        """
        self._counts[part] = dict(counts)
        self.gauge(part, gauges or {})

    def gauge(self, part: str, gauges: Mapping[str, int]) -> None:
        """Keep how much of something a part has now, beside its other gauges. Costs nothing, as `count`."""
        self._gauges[part] = {**self._gauges.get(part, {}), **gauges}

    def passed(
        self, part: str, after: int, upto: Position, began: int, ended: int, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Keep that a part has passed the transactions behind sequence `after` up to `upto`, from `began` to `ended` in
        microseconds since 1970 UTC. Costs nothing, as `count`; the last PASSAGES of the part are kept.
        """
        told = {"sequence": upto.sequence, "upto": str(upto), "began": began, "ended": ended}
        waiting = self._passages.setdefault(part, deque(maxlen=PASSAGES))
        waiting.append({"part": part, "after": after, **told, "facts": json.dumps(dict(facts or {}))})

    def reset_counters(self) -> None:
        """Count from now on what is shown as counted since the reset."""
        self._write("reset_counts")

    def how(self, name: str, how: str) -> None:
        """Note, for people, how a part of this process works where there are several ways."""
        self._write("put_how", name=name, how=how)

    def doing(self, part: str, kind: str, names: Sequence[str]) -> None:
        """Note what a part is doing that may last, beside its phase, and to what; without names: that is over."""
        if names:
            self._write("put_doing", part=part, kind=kind, names=json.dumps(list(names)))
        else:
            self._write("end_doing", part=part, kind=kind)

    def waits(self, part: str, server: str, text: str) -> None:
        """Note that a part waits for somebody at a server; "" when that is over. It must be told again and again, else
        it counts as over.
        """
        if text:
            self._write("put_wait", part=part, server=server, text=text)
        else:
            self._write("end_wait", part=part, server=server)

    def phase(self, phase: str, detail: str = "", about: str = "", error: Mapping[str, Any] | None = None) -> None:
        """Note the phase of this process's part.

        `detail` says what a waiting part waits for, `about` the same in one word (Waiting), `error` the error behind
        it.
        """
        part, told = next(reversed(self._parts), ""), json.dumps(error) if error else None
        self._write("put_phase", part=part, phase=phase, detail=detail, about=str(about), error=told)
        if self._phase != (phase, about):
            self._phase = phase, about
            self.noted(phase, str(about), detail, error)

    def drains(self) -> None:
        """Note that streaming goes on up to a known place, and ends there. Any other phase stays."""
        self._write("put_draining")

    def progress(self, table: TableId | str, done: int, total: int | None) -> None:
        """Note how many rows of a table are loaded, of about `total`."""
        self._write("put_progress", table=str(table), done=done, total=total)

    def position(self, kind: str, position: Position | str, commit_time: int = 0) -> None:
        """Note a position. `kind` is read, written, applied, source_end for a place where capture had all that the source
        had, or log_end for the end of the source's log.

        `commit_time` in microseconds since 1970 UTC, 0 = unknown. Of some kinds (SAMPLED) `seen` keeps where they were.
        """
        if kind in SAMPLED:
            self._places[kind] = str(position)
        self._write("put_position", kind=kind, text=str(position), commit_time=commit_time)

    def slow_epochs(self, count: int, epochs: int, reason: str) -> None:
        """Note how many epochs of apply went row by row since it started, of how many, and why the last one did."""
        self._write("put_slow", count=count, epochs=epochs, reason=reason)

    def last_error(
        self,
        message: str,
        exit_code: int = 1,
        part: str = "",
        retry: str = "never",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Note a part's last error. `retry`: what may be done after it (errors.Retry); `facts`: AnabranchError.facts()."""
        told = json.dumps(dict(facts or {}))
        self._write("put_last_error", message=message, exit_code=exit_code, part=part, retry=retry, facts=told)

    def clear_last_error(self) -> None:
        self._write("clear_last_error")

    def close(self) -> None:
        with self._mutex:
            connection, self._connection = self._connection, None
            if connection:
                with suppress(sqlite3.Error):
                    connection.close()

    # --- reading ----------------------------------------------------------------------------------------------------

    def living(self) -> list[dict[str, Any]]:
        """Return the parts that live, with the marks that tell their processes from others of the same number."""
        return [part for part in self._read("parts") if lives(part)]

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values.

        `parts` lists those that live, `gone` those that died without saying that they end; without parts the phase is
        `stopped`.
        """
        rows = self._read_at_once(*SHOWN)
        found = rows["parts"]
        alive = {p["name"]: p for p in found if lives(p)}
        parts = [_known(p, "mark", "seen") for p in alive.values()]
        phase = _told(rows["phases"], alive) if alive else None
        errors = {row["part"]: {**row, "facts": json.loads(row["facts"])} for row in rows["errors"]}
        return {
            "phase": phase["phase"] if phase else "stopped",
            "detail": phase["detail"] if phase else "",
            "about": phase["about"] if phase else "",
            "phase_since": phase["since"] if phase else None,
            "phase_error": json.loads(phase["error"]) if phase and phase["error"] else None,
            "parts": parts,
            "gone": [{**_known(p, "mark"), "is_here": is_here(p)} for p in found if p["name"] not in alive],
            "ends": {row["name"]: {"at": row["at"], "has_failed": bool(row["has_failed"])} for row in rows["ends"]},
            "positions": {
                row["kind"]: {"text": row["text"], "commit_time": time_text(row["commit_time"]), "at": row["at"]}
                for row in rows["positions"]
            },
            "progress": {
                row["source_table"]: {"done": row["done"], "total": row["total"], "at": row["at"]}
                for row in rows["progress"]
            },
            "counters": _by_part(rows["counters"], ("value", "total", "since", "at")),
            "gauges": _by_part(rows["gauges"], ("value", "at")),
            "slow_epochs": next(iter(rows["slow"]), None),
            "waits": [wait for wait in rows["waits"] if is_fresh(wait["at"], FRESH_S)] if parts else [],
            "doing": [{**row, "names": json.loads(row["names"])} for row in rows["doing"] if row["part"] in alive],
            "errors": errors,
            "last_error": next(reversed(errors.values()), None),
        }

    def samples(self) -> dict[str, list[PlaceSample]]:
        """Return where positions were in the last hours, by kind, in order of time (SAMPLE_S)."""
        found: dict[str, list[PlaceSample]] = {}
        for row in self._read("samples"):
            found.setdefault(row["kind"], []).append(PlaceSample(row["at"], row["text"]))
        return found

    def passages(self, part: str, sequence: int) -> list[dict[str, Any]]:
        """Return the stretches of the trail with a transaction that the part has passed, of those that are kept, the oldest
        first. There are several where a target went back.
        """
        found = self._read("passages", part=part, sequence=sequence)
        return [{**row, "facts": json.loads(row["facts"])} for row in found]

    def last_passages(self, part: str, limit: int) -> list[dict[str, Any]]:
        """Return the last stretches that the part has passed, at most `limit`, the oldest first."""
        return [
            {**row, "facts": json.loads(row["facts"])} for row in self._read("last_passages", part=part, limit=limit)
        ]

    # --- the file ---------------------------------------------------------------------------------------------------

    def _write(self, query: str, **values: Any) -> None:
        self._write_all([(query, values)])

    def _write_all(self, statements: list[tuple[str, dict[str, Any]]], past: int = 0) -> bool:
        """Carry out several statements in one transaction, and return whether they were. `past`: bytes that they keep of
        the past, which may not take the room of what is told of the present.
        """
        with self._guarded(statements[0][0]):
            reach("state.write")
            connection, at = self._open(), _now()
            if past:
                room.provide(connection, past)
            if len(statements) > 1:
                connection.execute("BEGIN IMMEDIATE")
            for query, values in statements:
                connection.execute(self._queries[query], {"at": at, **values})
            if len(statements) > 1:
                connection.execute("COMMIT")
            reach("state.written")
            return True
        return False

    def _counted(self, part: str) -> list[tuple[str, dict[str, Any]]]:
        counts = self._counts.pop(part, {}).items()
        gauges = self._gauges.pop(part, {}).items()
        return [
            *(("put_count", {"part": part, "name": name, "value": value}) for name, value in counts),
            *(("put_gauge", {"part": part, "name": name, "value": value}) for name, value in gauges),
        ]

    def _write_past(self, part: str, samples: Sequence[tuple[str, dict[str, Any]]] = ()) -> None:
        """Write what a part has passed, and samples, behind its sign of life: a disk that is full refuses them alone.
        Passages that were refused come again.
        """
        waiting = self._passages.get(part) or deque()
        new = (waiting.popleft() for _ in range(len(waiting)))
        told = [*self._refused.pop(part, ()), *new][-PASSAGES:]
        dropped = [("drop_passages", {"part": part, "kept": PASSAGES - len(told)})] if told else []
        statements = [*dropped, *(("put_passage", one) for one in told), *samples]
        past = ROW_BYTES * len(statements) + sum(len(one["facts"]) for one in told)
        if statements and not self._write_all(statements, past):
            self._refused[part] = told

    def _samples_due(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what keeps a sample of each position that this process has told, where it is time for one."""
        now = time.monotonic()
        if not self._places or (self._sampled and now - self._sampled < SAMPLE_S):
            return []
        kept = not self._kept or now - self._kept >= KEPT_S
        self._sampled, self._kept = now, now if kept else self._kept
        moment, places = time.time(), dict(self._places)
        for kind in LOOKED_AT:
            self._places.pop(kind, None)
        return [
            (query, {"kind": kind, "moment": moment, "text": text, "kept": kept})
            for kind, text in places.items()
            for query in ("drop_samples", "put_sample")
        ]

    def _read(self, query: str, **values: Any) -> list[dict[str, Any]]:
        """Run a query. Never creates the file: `status` of a job that never ran leaves nothing behind."""
        if not self._path.exists():
            return []
        with self._guarded(query):
            return _mappings(self._open().execute(self._queries[query], values))
        return []

    def _read_at_once(self, *queries: str) -> dict[str, list[dict[str, Any]]]:
        """Run several queries on one state of the file, which is looked at and locked once for all of them."""
        if self._path.exists():
            with self._guarded(queries[0]):
                connection = self._open()
                connection.execute("BEGIN")
                try:
                    return {query: self._rows(connection, query) for query in queries}
                finally:
                    connection.rollback()
        return {query: [] for query in queries}

    def _rows(self, connection: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
        """Run a query; a table that an earlier release had not, in a file that is read-only, has no rows."""
        try:
            return _mappings(connection.execute(self._queries[query]))
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return []

    @contextmanager
    def _guarded(self, query: str) -> Iterator[None]:
        with self._mutex:
            try:
                yield
            except sqlite3.OperationalError as error:  # locked, read-only, no room: the next write may succeed
                log.get(file=str(self._path)).warning("state_not_written", query=query, error=str(error))
                self.close()
            except sqlite3.DatabaseError as error:  # not a database, malformed
                log.get(file=str(self._path)).warning("state_recreated", query=query, error=str(error))
                self._recreate()
            except OSError as error:
                log.get(file=str(self._path)).warning("state_not_written", query=query, error=str(error))
                self.close()

    def _open(self) -> sqlite3.Connection:
        if self._connection and self._inode == _inode(self._path):
            return self._connection
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(self._path.with_suffix(".lock")):
            self._connection = self._prepared()
            self._inode = _inode(self._path)
        for part in list(self._parts.values()):
            self._connection.execute(self._queries["keep_part"], part)
        return self._connection

    def _prepared(self) -> sqlite3.Connection:
        if not self._path.exists():
            self._remove()  # a log left behind by a deleted file would be replayed into the new one
        connection = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = PERSIST")  # its room is kept, too
        connection.execute("PRAGMA synchronous = OFF")  # it can be rebuilt
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, VERSION):
            connection.close()
            self._remove()
            return self._prepared()
        if found != VERSION:
            for name, query in self._queries.items():
                if name.startswith("create_"):
                    connection.execute(query)
            room.prepare(connection)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        for query in ADDED:
            with suppress(sqlite3.OperationalError):
                connection.execute(self._queries[query])
        return connection

    def _recreate(self) -> None:
        self.close()
        with suppress(OSError), _only_one(self._path.with_suffix(".lock")):
            self._remove()

    def _remove(self) -> None:
        for suffix in ("", "-journal"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Let one process at a time create or remove the file."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _mappings(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino


def _known(row: dict[str, Any], *without: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and name not in without}


STUCK = ("source", "target", "others", "room")  # a part says itself when it goes on
OF_THEIR_OWN = ("capture", "load", "apply")


def _told(phases: list[dict[str, Any]], alive: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the last phase of a living part, or of no part; a waiting part hides later phases until it resumes."""
    told = [one for one in phases if not one["part"] or one["part"] in alive]
    stuck = [one for one in told if one["part"] in OF_THEIR_OWN and one["phase"] == "waiting" and one["about"] in STUCK]
    return next(reversed(stuck or told), None)


def _by_part(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["part"], {})[row["name"]] = {key: row[key] for key in keys}
    return found
