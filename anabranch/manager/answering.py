"""Asks whether the manager's store answers, and waits no longer for that than whoever asks for the manager's health does."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from anabranch.errors import StateError
from anabranch.manager.store import ManagerStore

WAIT_S = 2.0  # whoever looks after a container gives up after 4


class Answering:
    """The question to one store. One that is not answered yet is waited for again, and not asked twice."""

    def __init__(self, store: ManagerStore) -> None:
        self._store, self._mutex, self._asked = store, threading.Lock(), Future[None]()
        self._asked.set_result(None)

    def require(self) -> None:
        """Return when the store has answered. Raises StateError where it refuses, or does not answer for WAIT_S."""
        with self._mutex:
            if self._asked.done():
                self._asked = Future()
                threading.Thread(target=self._ask, args=(self._asked,), name="store answers", daemon=True).start()
            asked = self._asked
        try:
            asked.result(WAIT_S)
        except TimeoutError:
            message = f"the manager's state {self._store.keeper.place} has not answered for {WAIT_S:g} s"
            raise StateError(message, hint=self._store.keeper.hint) from None

    def _ask(self, asked: Future[None]) -> None:
        try:
            self._store.row("SELECT 1")
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            asked.set_exception(error)
        else:
            asked.set_result(None)
