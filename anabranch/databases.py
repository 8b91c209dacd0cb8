"""The registry: which databases there are, and what is known of one without asking it.

A database is a package `anabranch.connectors.<name>` whose `__init__.py` has its descriptor, `DATABASE`. It is found by the
name in NAMES, so that the job file can be checked below the connectors, and without their drivers: a descriptor, and
what it names in `options`, imports none.

What does not live here: what a connector can do (contracts), how a URL is read (`config/url.py`), how a connector is
made (`connectors/__init__.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Literal

NAMES = (
    "mysql",
    "mariadb",
    "postgresql",
    "kafka",
    "memory",
)  # a new database: its line here, its folder in connectors/
TRAIL = "trail+file"  # the scheme of an end that is a trail of another job
SSL_FILES = ("ssl_ca", "ssl_cert", "ssl_key", "ssl_mode", "unix_socket")
SOURCE, TARGET = "source", "target"  # roles, and sections of the job file
OPTIONS = "options"  # the key below them


@dataclass(frozen=True)
class Options:
    """Settings that one connector has in one role, `[source.options]` or `[target.options]` of the job file.

    A subclass is a frozen dataclass in the connector's `<role>/options.py`. Types and bounds of its fields are checked as
    those of every other key are (`config/options.py`); the text under a field is its entry in the reference page. It
    travels with the connector, to executors too. `NEEDS_LOAD`: what may not change without the tables being loaded again;
    of the others each process takes the new value when it starts.
    """

    NEEDS_LOAD: ClassVar[frozenset[str]] = frozenset()

    @property
    def has_first_rows(self) -> bool:
        """Return whether a target of changes is told of the rows that are there when the job begins, too."""
        return False


NONE = Options()


def whole_number(otherwise: int | None, low: int, high: int | None = None) -> Any:
    """Return a field of Options with bounds, both included."""
    return field(default=otherwise, metadata={"ge": low} | ({} if high is None else {"le": high}))


@dataclass(frozen=True)
class Database:
    """A database, as far as it is known without asking it.

    - `name`: the URL's scheme; `title`: as people write it; `nicknames`: wrong schemes, for "did you mean".
    - `roles`: what the connector can be. `options`: role -> module and class of its Options.
    - `url_options`: what may stand in a URL's query; `option_values`: what some of them may be.
    - `has_databases`: a connection is to one of several databases, each of
      which can be an end; where it is not, all databases of a server are one end.
    - `may_be_anonymous`: its URL may name no user. `has_brokers`: it may name several addresses, any of which will do.
      `has_standbys`: it may name several, of which each connection takes the server that can be written.
    - `keeps_changes`: as a target it takes changes alone, whatever the job file says.
    - `empties_by`: how a target empties a table inside a transaction, where the job file does not say.
    - `extra`: the installation's extra that has the driver.
    - `module`: its package, where it is not the one of its name in `connectors`.
    """

    name: str
    title: str
    port: int
    roles: tuple[str, ...]
    nicknames: tuple[str, ...] = ()
    url_options: tuple[str, ...] = SSL_FILES
    ssl_modes: tuple[str, ...] = ()
    option_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs_user: bool = True
    has_databases: bool = False
    may_be_anonymous: bool = False
    has_brokers: bool = False
    has_standbys: bool = False
    keeps_changes: bool = False
    empties_by: Literal["truncate", "delete"] = "truncate"
    extra: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    module: str = ""

    @property
    def has_addresses(self) -> bool:
        """Return whether its URL may name several addresses."""
        return self.has_brokers or self.has_standbys

    @property
    def is_one_end(self) -> bool:
        """True where all databases of a server are one end, whatever its URL names."""
        return self.needs_user and not self.has_databases

    @property
    def is_trail(self) -> bool:
        """Return whether it is no database: a directory that a capture writes and others read."""
        return self.name == TRAIL

    @property
    def package(self) -> str:
        return self.module or f"anabranch.connectors.{self.name}"

    def options_of(self, role: str) -> type[Options]:
        """Return the class of its options in a role: Options itself, which has none, where nothing can be set."""
        place = self.options.get(role)
        if place is None:
            return Options
        module, _, name = place.partition(":")
        found: type[Options] = getattr(import_module(module), name)
        return found


@cache
def registry() -> dict[str, Database]:
    """Return all databases by their names, in the order in which they are shown."""
    found = {name: import_module(f"anabranch.connectors.{name}").DATABASE for name in NAMES}
    return found | {TRAIL: import_module("anabranch.trail_end").DATABASE}


def public(role: str = "") -> Iterator[Database]:
    """Return the databases that a job file may name in this role ("": in any role), without the twin that is for tests."""
    return (one for one in registry().values() if one.needs_user and (not role or role in one.roles))
