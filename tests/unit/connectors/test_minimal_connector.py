"""The connector of the guide, docs/examples/connectors/folder: registered, asked by the conformance suites, run by a job."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch import connectors, databases
from anabranch.config import load_job
from anabranch.connectors.memory.database import database, forget
from anabranch.errors import ConfigError
from anabranch.job import Job
from anabranch.job.parts import run_load
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.conformance import reader, snapshot
from anabranch.testing.conformance.subject import COLUMNS, Texts
from anabranch.testing.torture.local import LocalEngine, Small
from anabranch.view.opened import source_of

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "connectors"
TYPES = ("bigint", "text", "int", "money", "bytes", "moment")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As its line in the registry and its folder beside the others would make it."""
    monkeypatch.setattr(connectors, "__path__", [*connectors.__path__, str(EXAMPLES)])
    monkeypatch.setattr(databases, "NAMES", (*databases.NAMES, "folder"))
    databases.registry.cache_clear()
    yield
    databases.registry.cache_clear()


class FolderSubject:
    """Writes the folder's files as its users would."""

    cuts_places = False
    origins = ()

    def __init__(self, place: Path) -> None:
        self.place, self.options = place, reader.OPTIONS
        (place / "log").mkdir(parents=True)
        self._write("tables.json", {"identity": str(place), "tables": {}})
        self._write("base.json", {"number": 0, "rows": {}})
        self.connector = connectors.source(Endpoint("folder", "", 0, "", "", str(place).lstrip("/")))
        self.tables: dict[str, list[dict[str, str | None]]] = {}

    def create(self, name: str, has_key: bool = True) -> TableId:
        found = json.loads((self.place / "tables.json").read_text())
        columns = dict(zip(COLUMNS, TYPES, strict=True))
        found["tables"][f"shop.{name}"] = {"columns": columns, "key": ["id"] if has_key else []}
        self._write("tables.json", found)
        self.tables[f"shop.{name}"] = []
        return TableId("shop", name)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        open_ = _Transaction({name: list(rows) for name, rows in self.tables.items()})
        yield open_
        self.tables = open_.tables
        if open_.changes:
            self._commit({"changes": open_.changes})

    def prepare(self, name: str) -> None:
        return None

    def decide(self, name: str, commit: bool) -> None:
        raise AssertionError("nothing is prepared here")

    def truncate(self, table: TableId) -> None:
        self.tables[str(table)] = []
        self._commit({"truncate": str(table)})

    def purge(self) -> None:
        self._write("base.json", {"number": self._end(), "rows": self.tables})
        for file in (self.place / "log").iterdir():
            file.unlink()

    def _end(self) -> int:
        begin = json.loads((self.place / "base.json").read_text())["number"]
        return max((int(file.name) for file in (self.place / "log").iterdir()), default=begin)

    def _commit(self, done: dict[str, Any]) -> None:
        self._write(f"log/{self._end() + 1:08}", {"at": time.time_ns() // 1000, **done})

    def _write(self, name: str, value: object) -> None:
        beside = self.place / "beside"
        beside.write_text(json.dumps(value))
        beside.rename(self.place / name)


class _Transaction:
    def __init__(self, tables: dict[str, list[dict[str, str | None]]]) -> None:
        self.tables, self.changes = tables, list[dict[str, Any]]()

    def insert(self, table: TableId, values: Texts) -> None:
        self._change(table, None, {name: values.get(name) for name in COLUMNS})

    def update(self, table: TableId, where: Texts, values: Texts) -> None:
        before = self._found(table, where)
        self._change(table, before, {**before, **values})

    def delete(self, table: TableId, where: Texts) -> None:
        self._change(table, self._found(table, where), None)

    def _found(self, table: TableId, where: Texts) -> dict[str, str | None]:
        return next(row for row in self.tables[str(table)] if where.items() <= row.items())

    def _change(self, table: TableId, before: Any, after: Any) -> None:
        rows = self.tables[str(table)]
        if before is not None:
            rows.remove(before)
        if after is not None:
            rows.append(after)
        self.changes.append({"table": str(table), "before": before, "after": after})


@pytest.mark.parametrize("check", [*reader.CHECKS, *snapshot.CHECKS], ids=lambda check: check.__name__)
def test_it_passes_the_suites_of_a_source(check: Callable[[Any], None], tmp_path: Path) -> None:
    check(FolderSubject(tmp_path / "shop"))


def job_file(place: Path, options: str = "") -> Path:
    file = place / "job.toml"
    file.write_text(
        f'name = "folder"\n[source]\nurl = "folder:///{str(place / "shop").lstrip("/")}"\n{options}'
        '[target]\nurl = "memory:///minimal"\n[[rules]]\ninclude = ["shop.*"]\ntarget = "public.{table}"\n'
    )
    return file


def test_its_options_are_options_of_the_job_file(tmp_path: Path) -> None:
    job = Job(load_job(job_file(tmp_path, "[source.options]\npoll_ms = 7\n"), {}), tmp_path / "job.toml")
    assert source_of(job).options.poll_ms == 7  # type: ignore[attr-defined]  # it is this one
    with pytest.raises(ConfigError, match=r"line 5, \[source.options\] poll_mss: unknown key; expected one of poll_ms"):
        load_job(job_file(tmp_path, "[source.options]\npoll_mss = 7\n"), {})


def test_a_job_loads_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    forget(["minimal"])
    made = FolderSubject(tmp_path / "shop")
    table = made.create("item")
    with made.transaction() as changes:
        for number in range(3):
            changes.insert(table, {"id": str(number), "word": f"w{number}"})
    run_load(Job.from_file(job_file(tmp_path)), [], recreate=False, engine=LocalEngine(Small()))
    target = TableId("public", "item")
    assert sorted(row[:2] for row in database("minimal").tables[target].rows.values()) == [
        ("0", "w0"),
        ("1", "w1"),
        ("2", "w2"),
    ]
    with closing(made.connector.catalog()) as catalog:
        assert list(catalog.names()) == [table]
