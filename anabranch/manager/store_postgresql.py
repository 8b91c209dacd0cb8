"""The manager's state in a database of PostgreSQL: for managers of several machines.

Transactions that write come one after the other, by a lock of the server, and those of the manager that leads begin by
comparing its token with that of the lease, so that one that was overtaken writes nothing, whatever it still believes. What
does not live here: who leads (`lease_shared.py`), how a statement is written (`store_dialect.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg.types.numeric import FloatLoader

from anabranch.config.url import parse_url
from anabranch.connectors.postgresql.connection import opened, settle
from anabranch.errors import ConfigError, Overtaken, StateError
from anabranch.manager.store_contract import Values
from anabranch.manager.store_dialect import of_postgresql
from anabranch.model.endpoint import EndLimits, Endpoint

if TYPE_CHECKING:
    from psycopg.rows import RowMaker

SCHEMA = "anabranch_manager"
APPLICATION = "anabranch-manager"
WRITERS = 0x616E6162_6D616E61  # the advisory lock of who writes: a number of ours
# One who was stopped (SIGSTOP) in a transaction loses it and the lock after so long.
IDLE_S = 10.0
LIMITS = EndLimits(connect=5.0, statement=20.0, silence=10.0)
_FENCE = "SELECT token, holder FROM lease WHERE one = 1"


class Row(tuple[Any, ...]):
    """A row, asked by a column's name or place. `dict` makes a mapping of it."""

    names: tuple[str, ...] = ()

    def keys(self) -> tuple[str, ...]:
        """Return the names of its columns."""
        return self.names

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)


Connection = psycopg.Connection[Row]


class PostgresKeeper:
    """Implements `Keeper`, over one connection, which is opened again where it was lost outside of a transaction."""

    hint = "look at that server, and at the line to it"
    errors = (psycopg.Error,)

    def __init__(self, endpoint: Endpoint) -> None:
        """Connect, and make our schema. Raises StateError."""
        self.place, self._endpoint = str(endpoint), replace(endpoint, limits=LIMITS)
        self._connection: Connection | None = None
        self._is_writing = False
        self._fence: tuple[int, str] | None = None
        self._when_overtaken: Callable[[], None] = lambda: None
        try:
            self.begin()
            self.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            self.commit()
        except psycopg.Error as error:
            self.close()
            message = f"the manager's state {self.place} cannot be used: {_first_line(error)}"
            raise StateError(message, hint="the user needs CREATE on the database; " + self.hint) from None

    def another(self) -> PostgresKeeper:
        """Return one of the same database with a connection, and no fence, of its own."""
        return PostgresKeeper(self._endpoint)

    def fence(self, token: int, holder: str, when_overtaken: Callable[[], None]) -> None:
        """Write from now on only while the lease has this token and holder; `when_overtaken` is called when it has not."""
        self._fence, self._when_overtaken = (token, holder), when_overtaken

    @property
    def is_writing(self) -> bool:
        """Return whether a transaction is open."""
        return self._is_writing

    def mark(self) -> None:
        """Return nothing: the server would have to be asked."""
        return

    def session(self) -> PostgresKeeper:
        """Return what executes statements."""
        return self

    def execute(self, query: str, values: Values = (), /) -> psycopg.Cursor[Row]:
        """Execute a statement. Raises ConfigError for text that PostgreSQL cannot keep."""
        return self._opened().execute(of_postgresql(query), _adapted(values))

    def executemany(self, query: str, values: Iterable[Sequence[Any]], /) -> None:
        """Execute a statement for many rows."""
        with self._opened().cursor() as cursor:
            cursor.executemany(of_postgresql(query), [_adapted(one) for one in values])

    def begin(self) -> None:
        """Open a transaction, wait for those of others, and compare the token. Raises Overtaken."""
        connection = self._opened()
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        self._is_writing = True
        connection.execute(f"SELECT pg_advisory_xact_lock({WRITERS})")
        if self._fence is not None:  # a statement of its own: it sees what was committed before we got the lock
            row = connection.execute(_FENCE).fetchone()
            if row is None or tuple(row) != self._fence:
                self._when_overtaken()
                raise Overtaken(f"another manager has taken over the jobs in {self.place}")

    def commit(self) -> None:
        """Make it durable. Raises StateError where the server has taken it back."""
        done = self._opened().execute("COMMIT").statusmessage
        self._is_writing = False
        if done != "COMMIT":
            raise StateError(f"the manager's state {self.place} took a change back", hint="ask again")

    def rollback(self) -> None:
        """Take it back; a line on which that does not work is closed, and the server takes it back."""
        if self._is_writing and self._connection is not None:
            try:
                self._connection.execute("ROLLBACK")
            except psycopg.Error:
                self._connection.close()
        self._is_writing = False

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _opened(self) -> Connection:
        if self._connection is None or (self._connection.closed and not self._is_writing):
            self._connection = _connected(self._endpoint)
        return self._connection


def endpoint_of(url: str, environment: Mapping[str, str]) -> Endpoint:
    """Return where a store is, by its URL. Raises ConfigError."""
    scheme = url.partition("://")[0]
    if scheme != "postgresql":
        hint = "postgresql://user:${PASSWORD}@host:5432/database; without one it is a file below ANABRANCH_HOME"
        raise ConfigError("the store of a manager is a PostgreSQL", hint=hint)
    endpoint, problems = parse_url(url, environment, needs_database=True)
    if endpoint is None:
        told = "; ".join(problem.message for problem in problems)
        raise ConfigError(f"the URL of the store: {told}", hint=problems[0].expected)
    return endpoint


def _connected(endpoint: Endpoint) -> Connection:
    """Return a session as the store needs it. Raises psycopg.Error, StateError."""
    options = {"autocommit": True, "row_factory": _rows, "prepare_threshold": None}
    made = cast("Connection", opened(endpoint, APPLICATION, **options)[0])
    made.adapters.register_loader("numeric", FloatLoader)  # sums, which SQLite has as floats
    with _closed_where_it_fails(made):
        if (refusal := settle(made)) is not None:
            raise StateError(f"{endpoint.place}: {refusal[0]}", hint=refusal[1])
        settings = {
            "search_path": SCHEMA,
            "statement_timeout": str(int(endpoint.limits.statement * 1000)),
            "lock_timeout": "0",
            "idle_in_transaction_session_timeout": str(int(IDLE_S * 1000)),
        }
        for name, value in settings.items():
            made.execute("SELECT set_config(%s, %s, false)", (name, value))
        # What is written has to be durable, the lease above all.
        made.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    return made


@contextmanager
def _closed_where_it_fails(connection: Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:  # whatever it was: closed, and passed on
        with suppress(psycopg.Error):
            connection.close()
        raise


def _rows(cursor: psycopg.Cursor[Any]) -> RowMaker[Row]:
    """Return what makes rows of an answer."""
    names = tuple(column.name for column in cursor.description or ())

    def made(values: Sequence[Any]) -> Row:
        row = Row(values)
        row.names = names
        return row

    return made


def _adapted(values: Values) -> Values:
    """Return values as PostgreSQL takes them."""
    if isinstance(values, Mapping):
        return {name: _one(value) for name, value in values.items()}
    return [_one(value) for value in values]


def _one(value: Any) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and "\0" in value:
        raise ConfigError("the manager's store keeps no text with a zero character", hint="leave it out")
    return value


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
