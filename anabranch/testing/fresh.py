"""Data directories as they are made, kept to be copied: MySQL and MariaDB take seconds to make one, a copy takes none.

Only where `ANABRANCH_FRESH_SERVERS` names a directory, as tests have it for one run: all servers of a kind have one password
then. A PostgreSQL is always made, because copies would share what tells one from another; a MySQL finds its name at its
first start. What does not live here: how a data directory is made (recipes.py).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anabranch.testing.cache import ServerUnavailable
from anabranch.testing.packages import Software

VARIABLE = "ANABRANCH_FRESH_SERVERS"
COPIED = ("mariadb", "mysql")


@dataclass(frozen=True, slots=True)
class Fresh:
    """The kept data directory of one kind of server. Processes may ask for it at once."""

    place: Path

    @classmethod
    def of(cls, name: str, software: Software, lasting: Sequence[str]) -> Fresh | None:
        """Return that of this software, made with these options; None where nothing is kept."""
        named = os.environ.get(VARIABLE)
        if not named or name not in COPIED:
            return None
        kind = hashlib.sha256("\n".join([str(software.home), software.version, *lasting]).encode()).hexdigest()
        return cls(Path(named) / f"{name}-{kind[:12]}")

    def password(self) -> str:
        """Return the administrator's password in it, the same from the first time on."""
        with self._alone():
            file = self.place / "password"
            if not file.exists():
                new = self.place / "password.new"  # whoever is killed here leaves no empty password
                new.touch(mode=0o600)
                new.write_text(secrets.token_hex(12))
                new.rename(file)
            return file.read_text()

    def fill(self, data: Path, make: Callable[[], None]) -> None:
        """Fill the empty directory `data` with a copy; `make` does it the first time."""
        kept = self.place / "data"
        with self._alone():
            if not kept.exists():
                make()
                shutil.rmtree(self.place / "data.new", ignore_errors=True)  # a part, of somebody who was killed
                # Most of it are logs of zeros: as holes they cost no copy anything.
                _copy(data, self.place / "data.new", "--sparse=always")
                (self.place / "data.new").rename(kept)
                return
        _copy(kept, data)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.place / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _copy(data: Path, to: Path, *how: str) -> None:
    """With its files' owner, and without the name that a MySQL has given itself (its `auto.cnf`)."""
    done = subprocess.run(["cp", "-a", *how, f"{data}/.", to], capture_output=True, text=True, check=False)
    if done.returncode and how:  # a cp that is not GNU's
        _copy(data, to)
    elif done.returncode:
        raise ServerUnavailable(f"a data directory cannot be copied to {to}: {done.stderr.strip()}")
    (to / "auto.cnf").unlink(missing_ok=True)
