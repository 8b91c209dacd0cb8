"""Programs that read change tables, at whatever database they are, and what is done at a source for them to read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql, PostgresToMysql
from rigs.scenario_postgresql import FromPostgres

FORM = '[target]\nform = "change_tables"\n'
ITEM = "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), n INT)"


def keep_changes(made: Scenario, text: str = "") -> None:
    """Write a job file whose target keeps changes; capture instances are called `public_…`."""
    made.write_job(text, rules=f'[[rules]]\ninclude = ["{made.schema}.*"]\ntarget = "public.{{table}}"\n')
    made.job_file.write_text(made.job_file.read_text().replace("[target]\n", FORM))


def whole_rows(made: Scenario, *tables: str) -> list[str]:
    """Return what a source needs so that its log has whole rows."""
    is_postgresql = made.source.server.name == "postgresql"
    return [f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in tables] if is_postgresql else []


WAYS = {
    (False, False): MysqlToMysql,
    (False, True): Scenario,
    (True, False): PostgresToMysql,
    (True, True): FromPostgres,
}


@contextmanager
def changes_between(
    way: tuple[str, str],
    request: pytest.FixtureRequest,
    source_database: Callable[[Server], Database],
    directory: Path,
    text: str = "",
) -> Iterator[JobHere]:
    """Yield a job from a source with table `item` to change tables. `way`: fixtures of both servers; `text`: more of the job
    file."""
    source = source_database(request.getfixturevalue(way[0]))
    target = create_database(request.getfixturevalue(way[1]), "changes")
    is_postgresql = tuple("postgresql" in name for name in way)
    if not is_postgresql[1]:
        target.execute("DROP DATABASE IF EXISTS cdc")
    made = WAYS[is_postgresql[0], is_postgresql[1]](source, target, directory, name=unique_name("job"))
    keep_changes(made, text)
    source.execute(ITEM, *whole_rows(made, "item", "scenario_mark"))
    yield JobHere(made)
    if not is_postgresql[1]:
        made.cli("drop", "--execute", code=None)
        target.execute("DROP DATABASE IF EXISTS cdc")
    drop_database(target)


@dataclass
class Asked:
    """The functions of change tables, as a program calls them at the target."""

    made: Scenario

    def one(self, call: str, *values: object) -> Any:
        """Return what a function gives. `call`: its name with its arguments, without the schema."""
        found = self.made.target.query(f"SELECT cdc.{call}", list(values))[0][0]
        return bytes(found) if isinstance(found, memoryview) else found

    def rows(self, called: str, since: bytes, to: bytes, option: str) -> list[tuple[Any, ...]]:
        """Return the rows of a function that gives rows, which is a procedure at a MySQL."""
        how = "SELECT * FROM" if self.made.target.server.name == "postgresql" else "CALL"
        found = self.made.target.query(f"{how} cdc.{called}(%s, %s, %s)", [since, to, option])
        return [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in found]

    def changes(self, since: bytes, to: bytes, option: str = "all", of: str = "item") -> list[tuple[Any, ...]]:
        return self.rows(f"fn_cdc_get_all_changes_public_{of}", since, to, option)

    def whole(self, instance: str, option: str = "all") -> list[tuple[Any, ...]]:
        """Return operation, mask and columns of all changes that an instance has."""
        since, to = (self.one(f"fn_cdc_get_{call}") for call in (f"min_lsn('{instance}')", "max_lsn()"))
        return [row[2:] for row in self.rows(f"fn_cdc_get_all_changes_{instance}", since, to, option)]

    def net(self, since: bytes, to: bytes, option: str = "all", of: str = "item") -> set[tuple[Any, ...]]:
        """Return operation and columns of what became of each row."""
        found = self.rows(f"fn_cdc_get_net_changes_public_{of}", since, to, option)
        return {(operation, *rest) for _, operation, _, *rest in found}


@dataclass
class Reader(Asked):
    """A program that copies changes as an ETL tool does: from behind what it has read last, to what is there now."""

    read: bytes = b""
    rows_read: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    seen: list[tuple[bytes, bytes, int]] = field(default_factory=list)

    def look(self) -> None:
        end = self.one("fn_cdc_get_max_lsn()")
        if end == self.read:
            return
        first = self.one("fn_cdc_get_min_lsn('public_item')")
        since = self.one("fn_cdc_increment_lsn(%s)", self.read) if self.read else first
        for lsn, seqval, operation, _, key, *rest in self.changes(since, end):
            self.seen.append((lsn, seqval, operation))
            if operation == 1:
                del self.rows_read[key]
            else:
                assert (key in self.rows_read) == (operation == 4), (key, operation)
                self.rows_read[key] = tuple(rest)
        self.read = end


def transaction(draw: random.Random, rows: dict[int, tuple[str | None, int]]) -> list[str]:
    """Return statements of one transaction, which leave other rows behind."""
    made = []
    for _ in range(draw.randint(1, 6)):
        key, other = draw.randint(1, 12), draw.choice([None, "a", "b", "ä"])
        shown = "NULL" if other is None else f"'{other}'"
        if key not in rows:
            rows[key] = (other, draw.randint(0, 9))
            made.append(f"INSERT INTO item VALUES ({key}, {shown}, {rows[key][1]})")
        elif draw.random() < 0.4:
            del rows[key]
            made.append(f"DELETE FROM item WHERE id = {key}")
        else:
            rows[key] = (other, rows[key][1] + 1)
            made.append(f"UPDATE item SET v = {shown}, n = n + 1 WHERE id = {key}")
    return made
