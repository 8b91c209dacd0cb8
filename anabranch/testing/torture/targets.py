"""The families of databases that a history's target may be: what a history needs of each, found by the server's name.

`sources.py` says the same of sources. A family knows servers, and what the kit makes and removes on them; `tables` gives
what concerns one history: TargetTables. A new target is one file with both, and a line in `_MODULES`.

What does not live here: what is right to be seen (check.py), when something happens to a target (deeds.py, pipeline.py),
what the product does at a target (connectors/).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from anabranch.databases import registry
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.tables import KEPT, heading

if TYPE_CHECKING:
    from anabranch.model.endpoint import Endpoint
    from anabranch.testing.torture.exempt import Noted
    from anabranch.testing.torture.sources import Kinds
    from anabranch.testing.torture.tables import Column, Schema, Table
    from anabranch.testing.torture.values import Text

_MODULES = {
    "postgresql": "anabranch.testing.torture.postgresql_target",
    "mysql": "anabranch.testing.torture.mysql_target",
    "mariadb": "anabranch.testing.torture.mysql_target",
    "kafka": "anabranch.testing.torture.kafka_target",
    "postgresql-changes": "anabranch.testing.torture.change_target",
    "mysql-changes": "anabranch.testing.torture.change_target",
    "mariadb-changes": "anabranch.testing.torture.change_target",
}
NAMES = tuple(_MODULES)
CHANGES = "-changes"  # behind the name of a server: the family that has change tables there
STATE = "anabranch"  # the schema in which the product keeps its own at a target


@dataclass(frozen=True, slots=True)
class ChangesDatabase(Database):
    """A database in which jobs have change tables, and no rows."""


@dataclass(frozen=True, slots=True)
class Private:
    """Databases of a private server; where a server is one end, the one without a name.

    `plain` belongs to a user who may not switch foreign keys off, and is seen as that user; `second` and `plain_second` are for
    jobs with two targets, one beside each. Without a `second` that is elsewhere (ground.py)."""

    target: Database
    plain: Database | None = None
    second: Database | None = None
    plain_second: Database | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Names at a target: its schemas, and the jobs of which the product keeps anything there."""

    schemas: Sequence[str]
    jobs: Sequence[str]

    @property
    def has_state(self) -> bool:
        return STATE in self.schemas


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that one transaction showed.

    A table that is not there all the time has its heading (tables.heading) among its lines, and is empty while it is away.
    `tables` and `beside`, by name: rows as lines of PostgreSQL's COPY, text format, in any order; a family that has no COPY
    writes values as values.copied does. `away`: tables that do not stream, as the product notes it in the same snapshot."""

    tables: Mapping[str, bytes]
    beside: Mapping[str, bytes]
    away: frozenset[str]


@dataclass(frozen=True, slots=True)
class Passing:
    """A table that comes and goes, and is there: the `name` that a history gives to it, the `table` that has it, its columns
    (() for none of those that it may have), and its heading as a line."""

    name: str
    table: str
    columns: Sequence[Column]
    head: bytes


def found_in(
    passing: Mapping[str, Sequence[Sequence[Column]]], there: Collection[tuple[str, str]]
) -> Sequence[Passing]:
    """Return those of the tables that may be there which are. `there`: pairs of a table and a column, or its number."""
    found = []
    for name, kinds in passing.items():
        is_kept = name.endswith(KEPT)  # then its name has a time behind it
        tables = {table for table, _ in there if (table.startswith(f"{name}_") if is_kept else table == name)}
        for table in sorted(tables):
            names = {column for one, column in there if one == table and not column.isdigit()}
            columns = next((some for some in kinds if {column.name for column in some} == names), ())
            found.append(Passing(name, table, columns, heading(names) + b"\n"))
    return found


def shown_in(names: Collection[str], found: Sequence[Passing], rows: Sequence[bytes]) -> dict[str, bytes]:
    """Return what each name shows; two tables of one name show both, so that none hides the other. `rows`: of those found."""
    shown = dict.fromkeys(names, b"")
    for one, lines in zip(found, rows, strict=True):
        shown[one.name] += one.head + lines
    return shown


class Snapshots(Protocol):
    """Reads a history's tables over a connection that it makes when it needs one. Every method may raise the family's
    `lost`; then `close`, and the next `read` connects again."""

    @property
    def has_more(self) -> bool:
        """Return whether the next `read` shows a later state than the last one did, which had been reached by then."""

    def read(self) -> Snapshot:
        """Read all tables in one snapshot, in as few round trips as there can be: it is asked hundreds of times a second."""

    def streams(self) -> bool:
        """Return whether all tables stream, as the product notes it. Uses a connection of its own."""

    def close(self) -> None:
        """Close the connection. Raises nothing."""


class Intrusion(Protocol):
    """One transaction of somebody who writes to a history's tables while a job does. Nobody else writes to them until it ends.
    Rows are found by a place, which is a text of the family's own and holds until the transaction ends."""

    @property
    def has_written(self) -> bool:
        """Return whether an earlier one has written: its COMMIT may have come through with the answer lost."""

    @property
    def may_insert(self) -> bool:
        """Return whether rows may be inserted: not where the target checks foreign keys for the job, too."""

    def rows(self, table: Table) -> list[tuple[str, dict[str, Text]]]:
        """Return each row's place, and its texts by column."""

    def delete(self, table: Table, place: str) -> None: ...

    def update(self, table: Table, place: str, column: str, text: Text) -> None: ...

    def insert(self, table: Table, row: Mapping[str, Text]) -> None: ...

    def note(self, table: Table, key: Sequence[Text], did: str) -> None:
        """Put a line into the relation INTRUDER: table, key in two columns (the second NULL for keys of one), `did`, how many
        rows the ledger has, false, and the key's row as it is now, as bytes of a line of COPY (NULL for none)."""


@dataclass(frozen=True, slots=True)
class Refuses:
    """A table that takes no row; with a `key` only rows whose hash of the key falls into `part` of so many `parts`, the same
    ones each time. Rows that are there already stay."""

    key: Sequence[str] = ()
    parts: int = 1
    part: int = 0


@dataclass(frozen=True, slots=True)
class Hides:
    """A table whose rows are hidden from everybody who is not exempt, its owner included, in the `way`-th of the family's
    ways, counted round and round. Only where a family `has_policies`."""

    way: int


Disturbance = Refuses | Hides


class TargetTables(Protocol):
    """One history's tables at one target, in the schema with its name. Every method may raise the family's `error`."""

    def snapshots(
        self,
        columns: Mapping[str, Sequence[Column]],
        beside: Sequence[str] = (),
        passing: Mapping[str, Sequence[Sequence[Column]]] | None = None,
    ) -> Snapshots:
        """Return a reader of these columns by table, of relations `beside` as a whole, and of tables that may be there under a
        name with these columns or those (`passing`); it does not connect yet."""

    def show(self, relation: str, schema: Schema) -> None:
        """Make a relation that says of which keys the target may hold something else (exempt.py), unless it is there.
        INTRUDER: a table of t, k1, k2, did, commits, mends, line (Intrusion.note). ASIDE: a view of t, k1, k2: the keys of rows
        that the product has set aside."""

    def intrude(self, tables: Sequence[Table]) -> AbstractContextManager[Intrusion]:
        """Begin somebody's transaction; a block that raises nothing commits it. Waits less than a second for locks."""

    def mend(self, *, is_over: bool) -> None:
        """Note in INTRUDER that its keys are being made equal now, or that they are, which empties it."""

    def noted(self, schema: Schema) -> list[Noted]:
        """Return the conflicts that the product has noted, by table, oldest first."""

    def disturb(self, table: str, how: Disturbance) -> None:
        """Make the table refuse or hide rows from now on; a second time is no error.

        Waits less than a second for locks: apply holds the table while it writes."""

    def calm(self, table: str, how: Disturbance) -> None:
        """Take that back; a second time is no error."""

    def flush(self) -> None:
        """Write what is committed to the disk, so that a server that loses its last commits keeps it."""


class TargetFamily(Protocol):
    """One kind of target.

    `name`: its server's, and the scheme of URLs. `error`: the class of all errors of its driver; `lost`: that of a line or a
    server that is gone. `has_policies`: it can hide rows from a job's user (Hides, policies.py). `keeps_changes`: it has no
    rows but the changes of them, so that nothing is done to rows there, and it is a job's only target. `form`: [target] form of
    its jobs, "" for the usual one; with a form the changes come without the rows that were there before (change_fold.py), and
    tables that are emptied are refused. `is_alone`: one job at a time. `preloaded`: modules that a job's processes need for it,
    product and driver. `choices`: values of [target.options] that are drawn, by option."""

    name: str
    error: type[Exception]
    lost: type[Exception]
    has_policies: bool
    keeps_changes: bool
    form: str
    is_alone: bool
    preloaded: Sequence[str]
    choices: Mapping[str, Sequence[str | int | bool]]

    def private(self, directory: Path) -> AbstractContextManager[Private]:
        """Start a server of the kit's own below a directory, quick, not durable; stop it at the end.

        It has the users that histories come as (worst.py, policies.py, bound.py), and may be restarted."""

    def kinds(self, known: Kinds, source: str, target: Database) -> Kinds:
        """Return those of a source's kinds, of a family, whose every value comes to this target exactly."""

    def entered(self, end: Endpoint) -> Database:
        """Enter the database that a user's URL names.

        Raises TargetUnavailable where it cannot be entered, PreflightFailed where its user may not do what a history needs."""

    def found(self, target: Database) -> Found: ...

    def of_history(self, target: Database, name: str) -> Database:
        """Return where a history of this name finds its target: the same database, unless each has its own."""

    def prepare(self, target: Database, name: str) -> None:
        """Make ready for a history of this name, of which nothing is left. Raises as `drop`."""

    def drop(self, target: Database, name: str) -> None:
        """Drop a history's schema, with all in it. Raises what the server says, also of a lock after LOCK_SECONDS."""

    def forget(self, target: Database, job: str) -> None:
        """Remove what the product keeps of a job. Raises what the server says, also of a lock after LOCK_SECONDS."""

    def drop_state(self, target: Database) -> None:
        """Drop the product's own schema, unless it has anything of any job."""

    def beside(self, target: Database, name: str) -> AbstractContextManager[Database | str]:
        """Make another database on the target's server, like it, and drop it afterwards; a text says why there can be none."""

    def tables(self, target: Database, namespace: str) -> TargetTables: ...


@cache
def target_family(name: str) -> TargetFamily:
    """Return the family by a server's `name`."""
    made: TargetFamily = import_module(_MODULES[name]).family(name)
    return made


def family_at(target: Database) -> TargetFamily:
    return target_family(target.server.name + (CHANGES if isinstance(target, ChangesDatabase) else ""))


def database_of(family: str, server: Server, name: str) -> Database:
    """Return a database at which a family of this name is found."""
    return ChangesDatabase(server, name) if family.endswith(CHANGES) else Database(server, name)


def empties_apart(target: Database) -> bool:
    """Return whether a TRUNCATE commits by itself there. It is none then unless the job file says so, and only in place of a
    transaction that does nothing else."""
    return registry()[target.server.name].empties_by == "delete"


def empties_at_once(target: Database, source: str, said: str = "", has_bare: bool = False) -> bool:
    """Return whether a TRUNCATE of a `source` of that family is one at the target, too: older snapshots see it early.

    `said`: by the job file, "" for nothing. Where it commits by itself (K17), what is seen between it and its epoch is the
    state behind the transaction, as that does nothing else; what a transaction has beside it, as its number in the ledger,
    makes it a DELETE. `has_bare`: the history has some with nothing beside it, also from other sources."""
    if said == "delete" or family_at(target).keeps_changes or (empties_apart(target) and not said):
        return False
    return not empties_apart(target) or source_family(source).commits_truncates or has_bare


def tables_at(target: Database, namespace: str) -> TargetTables:
    return family_at(target).tables(target, namespace)
