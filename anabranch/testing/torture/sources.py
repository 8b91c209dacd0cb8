"""The families of databases that a history's source may be: a small object for each, found by the server's name.

What does not live here: what each of them says and does (mysql_source.py, postgresql_source.py), what
differs between targets (targets.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.testing.servers import Server

if TYPE_CHECKING:
    from anabranch.model.endpoint import Endpoint
    from anabranch.testing.torture.history import History, Statement
    from anabranch.testing.torture.rows import RowChange
    from anabranch.testing.torture.speaker import Speaker
    from anabranch.testing.torture.tables import Schema
    from anabranch.testing.torture.values import Kind, Version

Event = Callable[[Any], "Sequence[Statement]"]  # of a draft.Draft
_MODULES = {
    "mysql": "anabranch.testing.torture.mysql_source",
    "mariadb": "anabranch.testing.torture.mysql_source",
    "postgresql": "anabranch.testing.torture.postgresql_source",
}
NAMES = tuple(_MODULES)


@dataclass(frozen=True, slots=True)
class Commits:
    """`order`: the numbers of a history's transactions as the source committed them. `changes`: the rows that each changed,
    where the source's log was read for that, too; None where its statements are carried out again instead."""

    order: Sequence[int]
    changes: Mapping[int, Sequence[RowChange]] | None = None


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of columns that a server knows.

    `numbers`: names of those that most keys have, frequent ones more often; `whole`: for columns that only hold a number."""

    all: Sequence[Kind]
    numbers: Sequence[str]
    whole: str

    @property
    def in_keys(self) -> list[str]:
        return [kind.name for kind in self.all if kind.nth]


class SourceFamily(Protocol):
    """One kind of source. `job_database`: what its URL in a job file ends with. `has_beside`: two-phase commits go beside a
    history (beside.py), they are none of its transactions. `has_images`: sessions choose what the log has of a row.
    `commits_truncates`: a TRUNCATE is a transaction of its own. `hides_actions`: the log lacks the rows that foreign keys
    change. `has_policies`: it can hide rows from a job's user (policies.py). `preloaded`: modules that a job's processes need
    for it, product and driver."""

    name: str
    job_database: str
    has_beside: bool
    has_images: bool
    commits_truncates: bool
    hides_actions: bool
    has_policies: bool
    preloaded: Sequence[str]

    def kinds(self, version: Version, decoder: str = "") -> Kinds:
        """Return the kinds whose values come exactly through a decoder of its log, "" for the usual one."""

    def events(self, schema: Schema) -> Mapping[Event, int]:
        """Return the events that are drawn for histories of these tables, with their weights."""

    def start(self, directory: Path, decoders: Sequence[str] = ()) -> Server:
        """Start a private server below a directory, quick, not durable; with these decoders of its log beside the usual one."""

    def entered(self, end: Endpoint) -> Server:
        """Enter the server that a user's URL names.

        Raises ConfigError where only private ones can be tortured, SourceUnavailable where it cannot be entered,
        PreflightFailed where it cannot do what a history needs."""

    def named(self, server: Server) -> list[tuple[str, str]]:
        """List the objects of the kind that histories make, by kind and name, whoever made them."""

    def prepare(self, history: History, server: Server) -> Any:
        """Make empty tables, afresh. Returns where the source's log is then, for `commits`."""

    def tell_whole_rows(self, server: Server, name: str) -> None:
        """Have the log tell whole rows of all tables of a history, as targets need them that keep changes."""

    def commits(self, server: Server, place: Any, history: History) -> Commits:
        """Read what the log has behind a place; asked once."""

    def lines(self, server: Server, database: str, schema: Schema) -> dict[str, list[bytes]]:
        """Return the rows by table, ledger included, as COPY would show them at the target, sorted."""

    def drop(self, server: Server, name: str) -> None:
        """Drop all that a history of this name has there. Raises what the server says, also of a lock that it waits for."""

    def roll_back(self, server: Server, name: str) -> None:
        """Roll back what a history has prepared there."""

    def session(self, server: Server, history: History, number: int) -> Speaker:
        """Open a session. Raises sessions.Lost."""


@cache
def source_family(name: str) -> SourceFamily:
    """Return the family by a server's `name`."""
    made: SourceFamily = import_module(_MODULES[name]).family(name)
    return made
