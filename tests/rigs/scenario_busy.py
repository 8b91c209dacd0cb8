"""Somebody who writes at the source while something else goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

from rigs.scenario import Scenario


@contextmanager
def busy(made: Scenario, statements: Callable[[int], Sequence[str]], rest: float = 0.02) -> Iterator[None]:
    """`statements` of 1001, 1002 …, each by itself, until the end. Raises what the source says of one."""
    ended = threading.Event()

    def write() -> None:
        for number in count(1001):
            if ended.wait(rest):
                return
            made.source.execute(*statements(number))

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            yield
        finally:
            ended.set()
            writer.result()
