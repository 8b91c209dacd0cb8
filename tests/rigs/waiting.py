"""Somebody who is in the way, and what is told of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from anabranch import waits
from anabranch.testing.in_time import PATIENCE, NotInTime, pause


@dataclass
class Told:
    """What listeners hear. `first` waits for a text with all these words. That it comes within ten seconds is a matter of the
    watching thread's pauses (tests/unit/test_waits.py): by the clock it would be one of how busy this machine is."""

    texts: list[tuple[float, str]] = field(default_factory=list)

    def hear(self, server: str, text: str) -> None:
        self.texts.append((time.monotonic(), text))

    def first(self, *words: str) -> str:
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE:
            for _, text in list(self.texts):
                if all(word in text for word in words):
                    return text
            pause(begun)
        raise NotInTime(f"nobody told of {words}: {self.texts}")

    def is_over(self) -> bool:
        return bool(self.texts) and self.texts[-1][1] == ""


@contextmanager
def told() -> Iterator[Told]:
    found = Told()
    with waits.listening(found.hear):
        yield found


class Doing:
    """What waits, in a thread of its own. `done` joins it and raises what it raised."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action, self._error = action, None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def done(self, seconds: float = PATIENCE) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise NotInTime("it still waits")
        if self._error is not None:
            raise self._error


def at_once(*stories: Callable[[], object]) -> None:
    """Tell stories that do little but wait side by side, each in a thread of its own; raise what any of them raised."""
    errors: list[BaseException] = []
    for story in [Doing(story) for story in stories]:
        try:
            story.done()
        except BaseException as error:  # noqa: BLE001 - raised when all have ended
            errors.append(error)
    if len(errors) > 1:
        raise BaseExceptionGroup("several of them failed", errors)
    if errors:
        raise errors[0]
