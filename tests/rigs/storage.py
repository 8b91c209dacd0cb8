"""A trail's storage whose process dies in the middle of what it does.

What does not live here: what has to hold afterwards (the tests).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from anabranch.trail.storage import LocalStorage


class Died(BaseException):
    pass


class Dying(LocalStorage):
    """Dies at its `left`th operation that changes something, before or after doing it; then nothing works any more. As
    only the process dies, nothing waits for the disk."""

    def __init__(self, directory: Path, left: int = 1 << 30, after: bool = False) -> None:
        super().__init__(directory)
        self.left, self.after = left, after

    def step(self, work: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left > 0:
            return work()
        if self.left == 0 and self.after:
            work()
        raise Died

    def _sync_folder(self, name: str) -> None: ...

    def create(self, name: str) -> Any:
        return DyingFile(self, self.step(lambda: LocalStorage.create(self, name)))

    def reopen(self, name: str) -> Any:
        return DyingFile(self, super().reopen(name))

    def replace(self, name: str, content: bytes, *, is_durable: bool = True) -> None:
        self.step(lambda: LocalStorage.replace(self, name, content, is_durable=False))

    def rename(self, old: str, new: str) -> None:
        self.step(lambda: LocalStorage.rename(self, old, new))

    def remove(self, name: str) -> None:
        LocalStorage.open(self, name).close()  # what is not there is no operation
        self.step(lambda: LocalStorage.remove(self, name))


class DyingFile:
    def __init__(self, storage: Dying, file: Any) -> None:
        self._storage, self._file, self.close = storage, file, file.close

    def write_at(self, offset: int, parts: Any) -> None:
        self._storage.step(lambda: self._file.write_at(offset, parts))

    def sync(self) -> None:
        self._storage.step(lambda: None)


class Asleep(Dying):
    """Falls asleep before its `left`th operation that changes something, after all questions that come before it. `meanwhile`
    is what happens in the world by the time it wakes up, and does what it was about to do."""

    def __init__(self, directory: Path, left: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(directory, left)
        self.meanwhile = meanwhile

    def step(self, work: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left == 0:
            self.meanwhile()
        return work()
