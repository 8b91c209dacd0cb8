"""The right to manage the jobs of a store that several machines share: a row of that store, with a token.

Whoever has it counts the row's `beat` on every `RENEW_S`. Whoever stands by watches the beat by a clock of its own: where it
has not moved for `TAKE_OVER_S`, it takes the lease with the next token, unless the beat has moved at that very moment. So no
two machines' clocks are ever compared. The holder acts for `GIVE_UP_S` behind its last beat, which is less, by a clock that
counts a suspended machine's time, too; and what it writes is compared with the token by the server (`store_postgresql.py`).
What does not live here: jobs, which have locks of their own.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg

from anabranch import log
from anabranch.errors import ConfigError, StateError
from anabranch.manager.lease import Lease
from anabranch.manager.recording import here
from anabranch.manager.store_postgresql import PostgresKeeper

RENEW_S, GIVE_UP_S, TAKE_OVER_S = 2.0, 10.0, 15.0
HOME_FILE = "home.id"
FAILURES = (psycopg.Error, StateError)


def boot_s() -> float:
    """Return seconds of this machine's clock that nobody sets, those of its sleep included."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SharedLease(Lease):
    """The lease of one store, from `take` to `close`, or to its loss. It has a connection of its own."""

    def __init__(self, directory: Path, keeper: PostgresKeeper, clock: Callable[[], float] = boot_s) -> None:
        """`directory`: the manager's; `keeper`: the store's, which is fenced as soon as the lease is taken."""
        super().__init__(directory)
        self._store, self._own, self._clock = keeper, keeper.another(), clock
        host = os.uname().nodename
        self._machine = f"machine {hashlib.sha256(here().encode()).hexdigest()[:8]}"
        self._name = f"process {os.getpid()} on {host} ({secrets.token_hex(4)}, {self._machine})"
        self._seen: tuple[int, int] | None = None  # token and beat
        self._since = 0.0
        self._token: int | None = None
        self._sure_until = float("-inf")
        self._is_lost = False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    @property
    def is_held(self) -> bool:
        """Return whether this process has it, as far as it knows."""
        return self._token is not None and not self._is_lost

    @property
    def is_lost(self) -> bool:
        """Return whether this process had it, and another one has taken it."""
        return self._is_lost

    def may_act(self) -> bool:
        """Return whether nobody else can have it: this process has renewed it so lately that nobody has given it up."""
        return self.is_held and self._clock() < self._sure_until

    @property
    def is_elsewhere(self) -> bool:
        """Return whether a process of another machine, or container, had it when it was last looked at. Two may have one name;
        a former release has said its name alone."""
        if ", machine " in self.holder:
            return not self.holder.endswith(f", {self._machine})")
        return bool(self.holder) and f" on {os.uname().nodename} (" not in self.holder

    def take(self) -> bool:
        """Take it, if it was given back, or nobody has renewed it for as long as we watch. Raises StateError."""
        if self.is_held:
            return True
        try:
            self._look()
        except FAILURES as error:
            self._own.rollback()
            raise StateError(f"the lease cannot be looked at: {_words(error)}", hint=self._own.hint) from None
        return self.is_held

    def require_home(self) -> None:
        """Raise ConfigError where the store belongs to other homes of jobs than those of this machine."""
        ours = _identity(self._path.with_name(HOME_FILE))
        try:
            self._own.begin()
            self._own.execute("UPDATE lease SET home = ? WHERE one = 1 AND home = ''", (ours,))
            theirs = self._own.execute("SELECT home FROM lease").fetchone()
            self._own.commit()
        except FAILURES as error:
            self._own.rollback()
            raise StateError(f"the lease cannot be looked at: {_words(error)}", hint=self._own.hint) from None
        if theirs is None or theirs["home"] != ours:
            raise ConfigError(
                f"the store {self._own.place} is for jobs with other homes than those beside {self._path.parent}",
                hint="let ANABRANCH_HOME be the same shared directory on every machine that uses this store",
            )

    def close(self) -> None:
        """Give it back, so that whoever stands by need not wait."""
        self._ends.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        if self.is_held:
            with suppress(*FAILURES):  # whoever stands by waits, then
                self._own.execute(
                    "UPDATE lease SET holder = '' WHERE one = 1 AND token = ? AND holder = ?", (self._token, self._name)
                )
        self._token = None
        self._own.close()

    def _look(self) -> None:
        row = self._own.execute("SELECT token, beat, holder FROM lease WHERE one = 1").fetchone()
        if row is None:
            raise StateError(f"the lease is not in {self._own.place}", hint="something else has removed it: restore it")
        self.holder, seen, moment = row["holder"], (row["token"], row["beat"]), self._clock()
        if seen != self._seen:
            self._seen, self._since = seen, moment
        if not row["holder"] or moment - self._since >= TAKE_OVER_S:
            self._take_over(*seen)

    def _take_over(self, token: int, beat: int) -> None:
        sent = self._clock()
        self._own.begin()  # behind whatever the former holder is writing
        done = self._own.execute(
            "UPDATE lease SET token = token + 1, beat = beat + 1, holder = ? WHERE one = 1 AND token = ? AND beat = ?",
            (self._name, token, beat),
        )
        self._own.commit()
        if done.rowcount:
            self._token, self._sure_until = token + 1, sent + GIVE_UP_S
            self._store.fence(self._token, self._name, self._lost)
            log.get().info("lease_taken", token=self._token)
            self._thread.start()

    def _keep(self) -> None:
        while not self._ends.wait(RENEW_S) and not self._is_lost:
            sent = self._clock()
            try:
                done = self._own.execute(
                    "UPDATE lease SET beat = beat + 1 WHERE one = 1 AND token = ? AND holder = ?",
                    (self._token, self._name),
                )
            except FAILURES as error:  # nothing is done meanwhile; if nobody has taken it, it goes on
                log.get().error("lease_not_renewed", error=_words(error))
                continue
            if done.rowcount:
                self._sure_until = sent + GIVE_UP_S
            else:
                self._lost()

    def _lost(self) -> None:
        """Note that another manager leads."""
        if not self._is_lost:
            self._is_lost = True
            log.get().error("lease_lost", token=self._token)
            self.when_lost()


def _identity(file: Path) -> str:
    """Return what the homes of jobs are known by on every machine that shares them; makes it where there is none."""
    with suppress(FileExistsError):
        beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        beside.write_text(secrets.token_hex(8))
        try:
            os.link(beside, file)  # whole, and by one process alone
        finally:
            beside.unlink()
    return file.read_text().strip()


def _words(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
