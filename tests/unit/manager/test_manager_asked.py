"""How many ask the ends of jobs at once, and who shares an answer. No server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from anabranch.errors import SourceUnavailable, TooBusy
from anabranch.manager.asked import MOST, MOST_OF_JOB, Asked
from anabranch.testing.in_time import until


class Away:
    """An end that does not answer until `comes_back`."""

    def __init__(self) -> None:
        self.questions, self._back = 0, threading.Event()

    def ask(self) -> int:
        self.questions += 1
        assert self._back.wait(60)
        return self.questions

    def comes_back(self) -> None:
        self._back.set()


@contextmanager
def pool(*ends: Away) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(40) as threads:
        try:
            yield threads
        finally:
            for end in ends:
                end.comes_back()


def in_it(asked: Asked, number: int) -> Callable[[], bool]:
    return lambda: asked._inside.total() == number


def test_who_asks_the_same_shares_the_answer() -> None:
    asked, end = Asked(), Away()
    with pool(end) as threads:
        found = [threads.submit(asked.ask, "shop", 1, "status", end.ask) for _ in range(MOST_OF_JOB)]
        until(in_it(asked, MOST_OF_JOB), "all ask or wait")
        end.comes_back()
        assert [one.result(60) for one in found] == [1] * MOST_OF_JOB
    assert asked.ask("shop", 1, "status", end.ask) == 2, "what is asked later is asked anew"
    assert not asked._inside and not asked._turns and not asked._answers


def test_an_error_is_shared_and_not_kept() -> None:
    asked, end = Asked(), Away()

    def fails() -> None:
        end.ask()
        raise SourceUnavailable("nobody answers")

    with pool(end) as threads:
        found: list[Future[None]] = [threads.submit(asked.ask, "shop", 1, "status", fails) for _ in range(2)]
        until(in_it(asked, 2), "both ask or wait")
        end.comes_back()
        for one in found:
            with pytest.raises(SourceUnavailable):
                one.result(60)
    assert end.questions == 1 and asked.ask("shop", 1, "status", lambda: "well") == "well"


def test_another_question_of_the_job_and_another_version_wait_their_turn() -> None:
    asked, end, other = Asked(), Away(), Away()
    other.comes_back()
    with pool(end) as threads:
        first = threads.submit(asked.ask, "shop", 1, "status", end.ask)
        until(lambda: end.questions == 1, "the first is asked")
        others = [threads.submit(asked.ask, "shop", *key, other.ask) for key in ((1, "parked"), (2, "status"))]
        until(in_it(asked, 3), "the others wait")
        assert other.questions == 0
        end.comes_back()
        assert first.result(60) == 1 and sorted(one.result(60) for one in others) == [1, 2]


def test_ends_that_are_away_keep_few_threads_and_no_other_job_waits_for_one() -> None:
    asked, end = Asked(), Away()
    with pool(end) as threads:
        for _ in range(MOST_OF_JOB):
            threads.submit(asked.ask, "shop", 1, "status", end.ask)
        until(in_it(asked, MOST_OF_JOB), "all of one job ask or wait")
        with pytest.raises(TooBusy, match="of the job shop"):
            asked.ask("shop", 1, "preflight", end.ask)
        assert asked.ask("web", 1, "status", lambda: "well") == "well"
        for number in range(MOST - MOST_OF_JOB):
            threads.submit(asked.ask, f"job-{number}", 1, "status", end.ask)
        until(in_it(asked, MOST), "as many as may ask or wait")
        with pytest.raises(TooBusy, match="of jobs"):
            asked.ask("web", 1, "status", lambda: "well")
