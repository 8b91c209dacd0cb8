"""A scenario with further targets beside the one in [target]: each has a name and a proxy that a test can cut.

What does not live here: everything that a scenario of one target does, too (scenario.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.testing import faults
from anabranch.testing.databases import Database
from anabranch.trail.reader import TrailReader
from rigs.scenario import TARGET_SECRET, Running, Scenario, wait_until

SOON = 180.0  # seconds; with Spark each part takes some of them to start


@dataclass
class Several:
    """`made` runs the commands; `ends`: the databases by their names; `ports`: where the job file says that they are."""

    made: Scenario
    ends: dict[str, Database]
    ports: dict[str, int] = field(default_factory=dict)

    def write_job(self, *names: str, text: str = "", named_only: bool = True) -> None:
        """`named_only`: without [target]; else that stays, and these stand beside it."""
        entries = "".join(
            f'[[targets]]\nname = "{name}"\nurl = "postgresql://{end.server.user}:${{{TARGET_SECRET}}}@'
            f'{end.server.host}:{self.ports.get(name, end.server.port)}/{end.name}"\n'
            for name, end in ((name, self.ends[name]) for name in names)
        )
        self.made.write_job(f"{entries}{text}")
        if named_only:
            whole = self.made.job_file.read_text()
            start = whole.index("[target]")
            self.made.job_file.write_text(whole[:start] + whole[whole.index("[[rules]]", start) :])

    def rows(self, name: str, table: str) -> Counter[Any]:
        return Counter(self.ends[name].query(f"SELECT * FROM public.{table}", options="-c timezone=UTC"))

    def assert_identical(self, *names: str, tables: tuple[str, ...]) -> None:
        for name in names or tuple(self.ends):
            for table in tables:
                there, here = Counter(self.made.source_rows(table)), self.rows(name, table)
                assert there == here, (name, table, there - here, here - there)

    def states(self, name: str) -> Mapping[str, str]:
        end = self.ends[name]
        if not end.query("SELECT to_regclass('anabranch.table_state') IS NOT NULL")[0][0]:
            return {}
        rows = end.query("SELECT source_table, state FROM anabranch.table_state WHERE job = %s", [self.made.name])
        return {table.split(".", 1)[1]: state for table, state in rows}

    def phase(self, name: str) -> str:
        return next(str(one["phase"]) for one in self.made.status()["targets"] if one["name"] == name)

    def apply_of(self, name: str, run: Running) -> int:
        """The process of a target's apply below `run`."""
        words = f"-m anabranch apply {self.made.job_file} --target {name}"
        return wait_until(
            lambda: next(iter(faults.find(run.pid, words)), None), SOON, f"apply of {name}", run.tail, run
        )

    def joins(self, table: str) -> int:
        """How often capture has brought a table in by a request."""
        with TrailReader(self.made.trail) as trail:
            return sum(e.joined for e in trail.history.entries if e.schema and str(e.schema.id) == table)

    def sequence(self, name: str) -> int:
        return int(self.ends[name].query("SELECT sequence FROM anabranch.checkpoint")[0][0])

    def wait_row(self, name: str, table: str, key: int, seconds: float = SOON) -> None:
        there = f"SELECT to_regclass('public.{table}') IS NOT NULL"
        query = f"SELECT count(*) FROM public.{table} WHERE id = {key}"
        end = self.ends[name]
        wait_until(
            lambda: end.query(there)[0][0] and end.query(query)[0][0] == 1, seconds, f"row {key} of {table} at {name}"
        )
