"""Statements that go to the server in one piece and are answered in one piece, each prepared once in a session.

By libpq's functions, which psycopg hands on: its own pipeline sends each statement by itself and looks for answers behind
each, and an epoch of seven rows takes three times as long.
https://www.postgresql.org/docs/current/libpq-pipeline-mode.html

What does not live here: what errors mean (`errors.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from anabranch.connectors.postgresql.connection import Connection

KEPT = 100  # prepared statements; psycopg keeps as many of its own
PREFIX = "together_"
PREPARED = f"SELECT name FROM pg_catalog.pg_prepared_statements WHERE name LIKE '{PREFIX}%'"


@dataclass(frozen=True, slots=True)
class Statement:
    """`values` in text form stand for $1, $2, … `is_kept`: it will come again, and is prepared."""

    text: bytes
    values: Sequence[str | None] = ()
    is_kept: bool = True


class Together:
    """What one connection sends in one piece. Not for two threads.

    Delivery: of what stands behind the first error nothing is carried out, a commit neither."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names: dict[bytes, bytes] = {}  # statement -> its name, the one that was not used for longest first
        self._numbers = count()
        self._is_in_doubt = False

    def doubt(self) -> None:
        """Somebody else speaks over the connection: psycopg drops every prepared statement behind a rollback, a DROP …"""
        self._is_in_doubt = True

    def run(self, statements: Sequence[Statement]) -> list[int]:
        """How many rows each has hit. Begins a transaction where none is open. Psycopg errors pass."""
        return [answer.command_tuples or 0 for answer in self._answers(statements)]

    def commit(self, statements: Sequence[Statement]) -> None:
        """Carry these out and end the transaction. Psycopg errors pass; a lost line leaves open whether it did."""
        *_, last = self._answers([*statements, Statement(b"COMMIT", is_kept=False)])
        if last.command_status != b"COMMIT":  # of a transaction that has failed it is a rollback
            raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back")

    def _answers(self, statements: Sequence[Statement]) -> list[PGresult]:
        self._look()
        self._is_in_doubt = True
        line = self._connection.pgconn
        plan = list(self._plan(line, statements))
        with _pipeline(self._connection):
            for _, send in plan:
                send()
            line.pipeline_sync()
            answers = self._connection.wait(_answers(line))
        for answer in answers:
            if answer.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(answer)
        self._is_in_doubt = False
        return [answer for (is_asked, _), answer in zip(plan, answers, strict=True) if is_asked]

    def _look(self) -> None:
        """Which names still stand for something?"""
        if self._is_in_doubt and self._names:
            found = {str(name).encode() for (name,) in self._connection.execute(PREPARED.encode())}
            self._names = {text: name for text, name in self._names.items() if name in found}

    def _plan(self, line: PGconn, statements: Sequence[Statement]) -> Iterator[tuple[bool, Callable[[], None]]]:
        """What is to be sent, and whether its answer was asked for."""
        if self._connection.info.transaction_status is TransactionStatus.IDLE:
            yield False, partial(line.send_query_params, b"BEGIN", None)
        for one in statements:
            values = [None if value is None else _sent(value) for value in one.values]
            if not one.is_kept:
                yield True, partial(line.send_query_params, one.text, values)
                continue
            if one.text not in self._names:
                yield from self._prepare(line, one.text)
            self._names[one.text] = name = self._names.pop(one.text)
            yield True, partial(line.send_query_prepared, name, values)

    def _prepare(self, line: PGconn, text: bytes) -> Iterator[tuple[bool, Callable[[], None]]]:
        if len(self._names) >= KEPT:
            name = self._names.pop(next(iter(self._names)))
            yield False, partial(line.send_query_params, b"DEALLOCATE " + name, None)
        self._names[text] = name = f"{PREFIX}{next(self._numbers)}".encode()
        yield False, partial(line.send_prepare, name, text)


def _sent(value: str) -> bytes:
    """libpq would take a zero character for the end."""
    if "\0" in value:
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return value.encode()


@contextmanager
def _pipeline(connection: Connection) -> Iterator[None]:
    """Whatever breaks off inside ends the line: nobody may take answers that are still to come for their own."""
    line = connection.pgconn
    line.enter_pipeline_mode()
    try:
        yield
        line.exit_pipeline_mode()
    except BaseException:  # an interrupt as well; passed on
        connection.close()
        raise


def _answers(line: PGconn) -> PQGen[list[PGresult]]:
    """The answer to each statement that was sent, up to the end of the piece."""
    while line.flush():
        if (yield Wait.RW) & Ready.R:
            line.consume_input()
    answers: list[PGresult] = []
    while True:
        while line.is_busy():
            if (yield Wait.R):
                line.consume_input()
        answer = line.get_result()
        if answer is not None and answer.status == ExecStatus.PIPELINE_SYNC:
            return answers
        if answer is not None:
            answers.append(answer)
        elif line.status == ConnStatus.BAD:
            raise _lost(answers)


def _lost(answers: Sequence[PGresult]) -> psycopg.Error:
    """What the server, or the library, said last."""
    said = [answer for answer in answers if answer.status == ExecStatus.FATAL_ERROR]
    return error_from_result(said[-1]) if said else psycopg.OperationalError("the connection is lost")


@lru_cache(maxsize=1024)
def numbered(text: bytes) -> bytes:
    """A statement of psycopg's, with $1, $2, … for its %s."""
    numbers = count(1)
    return re.sub(rb"%([s%])", lambda found: b"%" if found[1] == b"%" else b"$%d" % next(numbers), text)
