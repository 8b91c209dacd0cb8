"""The routes that exBase 3.11 offers, forward and back, as its own guide lists them, and how releases are written.

What does not live here: the routes that this product has beside them, which the connectors tell (`recipe/written.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from anabranch.errors import ConfigError
from anabranch.model.recipe import Version

LAST = (99, 99)  # minor and patch number of the last release of a line


@dataclass(frozen=True, slots=True)
class Release:
    """A database and its release, as `mysql:8.0`."""

    name: str
    release: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.release}" if self.release else self.name

    @property
    def version(self) -> Version:
        """Its numbers, of a line of releases those of its last; none for a release that is not made of numbers alone."""
        parts = self.release.split(".")
        is_told = all(part.isdigit() for part in parts)
        return (*map(int, parts), *LAST[len(parts) - 1 :]) if is_told else ()


@dataclass(frozen=True, slots=True)
class Family:
    """A database as exBase knows it. `releases`: those of the guide; a `connector` may know more."""

    title: str
    releases: tuple[str, ...]
    connector: str = ""


FAMILIES: Mapping[str, Family] = {
    "mysql": Family("MySQL", ("5.5", "5.6", "5.7", "8.0"), "mysql"),
    "mariadb": Family("MariaDB", (), "mariadb"),
    "postgresql": Family("PostgreSQL", ("11", "12"), "postgresql"),
    "oracle": Family("Oracle", ("11.2", "12c", "12c-pdb", "18c", "19c")),
    "sqlserver": Family("SQL Server", ("2005", "2008", "2008r2", "2012", "2014")),
    "vastbase-g100": Family("Vastbase G100", ("2.2.5", "2.2.10")),
    "vastbase-e100": Family("Vastbase E100", ("3.0",)),
    "opengauss": Family("openGauss", ("3.0",)),
    "gaussdb": Family("GaussDB (for openGauss)", ("v500r002c10",)),
    "kafka": Family("Kafka", (), "kafka"),
}
NICKNAMES = {"postgres": "postgresql", "pg": "postgresql", "maria": "mariadb", "mssql": "sqlserver", "g100": "vastbase-g100",
             "e100": "vastbase-e100"}  # fmt: skip


def _of(name: str, *releases: str) -> tuple[Release, ...]:
    return tuple(Release(name, one) for one in releases or FAMILIES[name].releases or ("",))


G100, E100, POSTGRESQL = _of("vastbase-g100"), _of("vastbase-e100"), _of("postgresql")
GAUSSDB, MYSQL = _of("gaussdb"), _of("mysql", "5.6", "5.7", "8.0")
ORACLE = _of("oracle", "11.2", "12c", "18c", "19c")
FORWARD: tuple[tuple[tuple[Release, ...], tuple[Release, ...]], ...] = (
    (_of("mysql", "5.5"), G100),
    (MYSQL, (*G100, *E100, *POSTGRESQL)),
    (_of("mysql", "5.7", "8.0"), GAUSSDB),
    (ORACLE, (*G100, *E100, *POSTGRESQL, *GAUSSDB, *MYSQL, *_of("opengauss"))),
    (_of("oracle", "12c-pdb"), G100),
    (_of("sqlserver", "2008", "2008r2", "2012", "2014"), G100),
    (G100, (*MYSQL, *G100, *_of("kafka"))),
)
# The way back, after a cut-over: what was the target is read, what was the source is written.
BACK: tuple[tuple[tuple[Release, ...], tuple[Release, ...]], ...] = (
    (G100, (*_of("mysql"), *_of("oracle"), *_of("sqlserver"))),
    ((*E100, *POSTGRESQL), (*MYSQL, *ORACLE)),
)


def parse(text: str) -> Release:
    """Read `mysql:8.0`. Raises ConfigError for a database or a release that is not known."""
    name, _, release = text.strip().lower().partition(":")
    name = NICKNAMES.get(name, name)
    family = FAMILIES.get(name)
    if family is None:
        raise ConfigError(f"{text!r} names no database that is known", hint=f"one of {', '.join(FAMILIES)}")
    found = Release(name, release)
    known = ", ".join(str(Release(name, one)) for one in family.releases)
    if not release and name != "kafka":
        raise ConfigError(f"{text!r} says no release", hint=f"write it behind a colon: {known or f'{name}:10.11'}")
    if not (release in family.releases or (family.connector and found.version) or (name == "kafka" and not release)):
        raise ConfigError(f"{found} is no release that is known", hint=f"one of {known}" if known else f"{name} alone")
    return found


def direction(source: Release, target: Release) -> str:
    """Return "forward" or "back" for a route of exBase's, "" for a pair that it does not have."""
    for word, table in (("forward", FORWARD), ("back", BACK)):
        if any(source in sources and target in targets for sources, targets in table):
            return word
    return ""


def routes() -> Iterator[tuple[Release, Release, str]]:
    """Yield every route of exBase's: source, target and direction."""
    for word, table in (("forward", FORWARD), ("back", BACK)):
        for sources, targets in table:
            yield from ((source, target, word) for source in sources for target in targets)


def targets_of(source: Release) -> list[Release]:
    return _once(target for one, target, _ in routes() if one == source)


def sources_of(target: Release) -> list[Release]:
    return _once(source for source, one, _ in routes() if one == target)


def _once(found: Iterable[Release]) -> list[Release]:
    return list(dict.fromkeys(found))
