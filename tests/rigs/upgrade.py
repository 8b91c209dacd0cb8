"""A kept job of the release before (make.py), put back in place: its home in a folder, its schema and tables in a database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from anabranch.testing.databases import Database
from anabranch.trail.reader import TrailReader
from rigs.scenario import Scenario
from rigs.scenario_postgresql import FromPostgres
from upgrade.make import digest

FOLDER = Path(__file__).parents[1] / "upgrade"
RELEASES = sorted(path.parent.parent.name for path in FOLDER.glob("*/from_mysql/expected.json"))
NOWHERE = "127.0.0.1:1"  # the source is gone: nobody listens there


class Kept:
    """The files of one job of a release, and the job that goes on with them."""

    def __init__(self, folder: Path, target: Database, directory: Path, source: Database | None = None) -> None:
        self.expected = self.told(folder)
        self._places = {
            "@TARGET@": f"{target.server.host}:{target.server.port}",
            "@SOURCE@": f"{source.server.host}:{source.server.port}" if source else NOWHERE,
            "@FOLDER@": str(directory),
        }
        directory.mkdir(parents=True)
        kind = Restored if folder.name == "from_mysql" else RestoredFromPostgres
        self.job = kind(source or target, target, directory, "kept", is_quick=True)
        self._put_back(folder)

    @staticmethod
    def told(folder: Path) -> dict[str, Any]:
        """What the release has noted of the job beside its own files."""
        found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
        return found

    def _put_back(self, folder: Path) -> None:
        text = self._placed((folder / "job.toml").read_text())
        self.job.job_file.write_text(text.replace(f"{self._places['@TARGET@']}/kept", self.job.target_place))
        with self.job.target.connect() as connection:
            connection.execute(self._placed((folder / "target.sql").read_text()).encode())
        for file in (file for file in (folder / "home").rglob("*") if file.is_file()):
            here = self.job.home / file.relative_to(folder / "home")
            here.parent.mkdir(parents=True, exist_ok=True)
            here.write_bytes(file.read_bytes())
        state = self.job.home / "state.sql"
        with closing(sqlite3.connect(self.job.home / "state.db")) as connection:
            connection.executescript(self._placed(state.read_text()))
        state.unlink()

    def _placed(self, text: str) -> str:
        for name, place in self._places.items():
            text = text.replace(name, place)
        return text

    def trail_end(self) -> int:
        with TrailReader(self.job.trail) as reader:
            return reader.end().position.sequence

    def assert_as_the_release_left_it(self) -> None:
        """What the release's own apply made of the same trail: every row of every table, the states, the checkpoint."""
        assert self.job.checkpoint()[2] == self.expected["checkpoint"]["after"]
        found = {table: digest(self.job.target, table) for table in self.expected["rows"]}
        assert found == self.expected["rows"]
        assert self.job.states() == self.expected["states"]


class _Restored:
    """Its source has no part in it yet, and its job file is the one that was kept."""

    target: Database

    def __post_init__(self) -> None:
        pass

    @property
    def target_place(self) -> str:
        return f"{self.target.server.host}:{self.target.server.port}/{self.target.name}"


class Restored(_Restored, Scenario):
    pass


class RestoredFromPostgres(_Restored, FromPostgres):
    pass
