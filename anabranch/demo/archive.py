"""An archive of Spark's classes, made while the servers start: the demo starts Spark three times, each time in half the time.

What does not live here: what is in it, and where it is kept (anabranch/testing/class_archive.py).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from anabranch.demo.child import Child
from anabranch.testing import class_archive

MAKE = "from anabranch.testing.class_archive import environment; environment()"
SECONDS = 5.0  # longer than this nobody waits for it: Spark then starts without, and the next demo has it


class ClassArchive:
    """Being made, or found, from the moment the context is entered."""

    def __init__(self, java_home: Path) -> None:
        self._java_home = {"JAVA_HOME": str(java_home)}

    def __enter__(self) -> Self:
        self._child = Child([sys.executable, "-c", MAKE], self._java_home)
        return self

    @property
    def is_being_made(self) -> bool:
        return self._child.process.poll() is None

    def environment(self) -> dict[str, str]:
        """What makes a start of Spark use it, once it is there; nothing where it cannot be made."""
        try:
            made = self._child.process.wait(SECONDS) == 0
        except subprocess.TimeoutExpired:
            return {}
        return class_archive.environment() if made else {}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.kill()
