"""The sessions of a history, at work at the source at the same time, and what the source said to each of their statements.

What does not live here: what a session says to its server (mysql_sessions.py, postgresql_sessions.py); which transactions
were committed, and in which order: the source's log says that (order.py, decoded.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from anabranch.testing.servers import Server
from anabranch.testing.torture.history import History, Transaction
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.speaker import COMMITTED, ROLLED_BACK, UNKNOWN, Collided, Lost, Outcome, Result, Speaker

AWAY = 60.0  # seconds for which a source that restarts is waited for
HELD = 0.05  # seconds for which one transaction stays open for another's sake


class Sessions:
    """The connections of a history, one per session, open over all phases. `committed` is told how many transactions of the
    phases after the first have been committed, each time."""

    def __init__(self, history: History, server: Server, committed: Callable[[int], None]) -> None:
        self.history, self.server, self._family = history, server, source_family(server.name)
        self.outcomes: dict[int, Outcome] = {}
        self._committed, self._count = committed, 0
        self._told = threading.Condition()
        self._open: dict[int, Speaker] = {}

    def run(self, phase: Sequence[Transaction], counts: bool = True) -> None:
        """Run all transactions of a phase. Raises what a session died of."""
        failures: list[BaseException] = []
        numbers = sorted({transaction.session for transaction in phase})
        threads = [
            threading.Thread(target=self._work, args=(number, phase, counts, failures), daemon=True)
            for number in numbers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def close(self) -> None:
        for speaker in self._open.values():
            with suppress(Exception):  # its server is away: there is nothing left to close
                speaker.close()

    def _work(self, session: int, phase: Sequence[Transaction], counts: bool, failures: list[BaseException]) -> None:
        try:
            for transaction in (t for t in phase if t.session == session):
                if transaction.pause:
                    time.sleep(transaction.pause / 1000)
                self._end(self._carry_out(transaction), counts)
        except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits for us
            failures.append(error)

    def _end(self, outcome: Outcome, counts: bool) -> None:
        with self._told:
            self.outcomes[outcome.number] = outcome
            self._told.notify_all()
            if counts and outcome.end == COMMITTED:
                self._count += 1
                self._committed(self._count)

    def _carry_out(self, transaction: Transaction) -> Outcome:
        results: list[Result] = []
        try:
            end = self._attempt(transaction, results)
        except Lost:
            self._open.pop(transaction.session, None)
            end = UNKNOWN
        return Outcome(transaction.number, tuple(results), end)

    def _attempt(self, transaction: Transaction, results: list[Result]) -> str:
        speaker = self._speaker(transaction.session)
        try:
            return speaker.carry_out(transaction, results, lambda: self._hold(transaction.behind))
        except Collided:
            speaker.roll_back()
            return ROLLED_BACK

    def _hold(self, behind: int) -> None:
        if behind:
            with self._told:
                self._told.wait_for(lambda: behind in self.outcomes, HELD)

    def _speaker(self, session: int) -> Speaker:
        """Open, or opened again: a source that restarts is waited for."""
        deadline = time.monotonic() + AWAY
        while session not in self._open:
            try:
                self._open[session] = self._family.session(self.server, self.history, session)
            except Lost:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        return self._open[session]
