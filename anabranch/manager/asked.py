"""Questions to the ends of jobs, few at a time: an end that does not answer holds a thread of the manager for a while.

Whoever asks what is being asked already gets that answer. What does not live here: the questions (`manager.py`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from anabranch.errors import TooBusy

T = TypeVar("T")
MOST = 16  # that ask or wait: the web server has 40 threads, and the rest is for what asks no end
MOST_OF_JOB = 4


class Asked:
    """The questions of one manager, from any thread. Of one job they are asked one after the other: each opens connections."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._inside: Counter[str] = Counter()  # by job: those that ask or wait
        self._turns: dict[str, threading.Lock] = {}
        self._answers: dict[tuple[str, int, str], Future[Any]] = {}

    def ask(self, job: str, version: int, what: str, find: Callable[[], T]) -> T:
        """Return what `find` finds, or what the same question about this version of the job, asked at the moment, finds. Raises
        TooBusy where too many ask or wait."""
        key = (job, version, what)
        with self._mutex:
            if self._inside[job] >= MOST_OF_JOB or self._inside.total() >= MOST:
                where = f"of the job {job}" if self._inside[job] >= MOST_OF_JOB else "of jobs"
                raise TooBusy(f"too many questions to the ends {where} have no answer yet")
            self._inside[job] += 1
            answer, turn = self._answers.get(key), self._turns.setdefault(job, threading.Lock())
            ours: Future[T] | None = None
            if answer is None:
                answer = ours = self._answers[key] = Future()
        try:
            if ours is not None:
                self._find(key, turn, ours, find)
            found: T = answer.result()
            return found
        finally:
            self._leave(job)

    def _find(self, key: tuple[str, int, str], turn: threading.Lock, answer: Future[T], find: Callable[[], T]) -> None:
        try:
            with turn:
                found = find()
        except BaseException as error:  # noqa: BLE001 - whatever it was: all who wait for it get it, this one, too
            self._no_more(key)
            answer.set_exception(error)
        else:
            self._no_more(key)
            answer.set_result(found)

    def _no_more(self, key: tuple[str, int, str]) -> None:
        """Let nobody else have this answer: what is asked from now on is asked anew."""
        with self._mutex:
            del self._answers[key]

    def _leave(self, job: str) -> None:
        with self._mutex:
            self._inside[job] -= 1
            if not self._inside[job]:
                del self._inside[job], self._turns[job]
