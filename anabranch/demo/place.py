"""The demo's directory `.anabranch/demo`: made afresh at every start, removed only when it is the demo's own."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.errors import ConfigError

MARK = "made-by-anabranch-demo"
MARK_TEXT = "anabranch demo made this directory, and removes it when it starts again.\n"


@contextmanager
def demo_directory(working: Path) -> Iterator[Path]:
    """Provide `working`/.anabranch/demo, empty, for one demo at a time. Raises ConfigError where it may not be taken."""
    home = working.absolute() / ".anabranch"
    home.mkdir(exist_ok=True)
    with (home / "demo.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another demo runs in {home}", hint="stop it, or start this one in another directory"
            ) from None
        yield make_afresh(home / "demo")


def make_afresh(directory: Path) -> Path:
    """Make an empty directory with our mark. What an earlier demo left there is removed."""
    remove_own(directory)
    directory.mkdir(mode=0o755)
    (directory / MARK).write_text(MARK_TEXT)
    return directory


def remove_own(directory: Path) -> None:
    """Remove a demo's directory. Raises ConfigError for one that is somebody else's: a job may be called `demo`."""
    if not directory.is_symlink() and not directory.exists():
        return
    if directory.is_symlink() or not (directory / MARK).is_file():
        raise ConfigError(
            f"{directory} was not made by the demo", hint="move it away, or start the demo in another directory"
        )
    for entry in sorted(directory.iterdir(), key=lambda path: path.name == MARK):  # the mark last
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    directory.rmdir()
