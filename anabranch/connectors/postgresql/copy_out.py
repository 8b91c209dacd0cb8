"""Rows that COPY gives, in blocks of whole messages: a message is a row.

libpq hands them over one by one, which costs more than anything else that is done with them. Where the line is not encrypted
and compiled code is installed, the statement goes beside libpq: it is idle before and after, and sees nothing of it.
https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SIMPLE-QUERY
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable, Generator, Iterator
from struct import pack, unpack_from

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection
from anabranch.rows import compiled
from anabranch.rows.counted import Told, lines_in

BLOCK_BYTES = 1 << 18  # what a processor's cache holds while it goes through several hands
LOST = "the line to the server was closed unexpectedly"
TAIL_BYTES = 4096  # of what came last: CommandComplete, and what a server may say behind it
TAG = re.compile(rb"C....COPY (\d+)\0", re.DOTALL)
IDLE = (psycopg.pq.TransactionStatus.IDLE, psycopg.pq.TransactionStatus.INTRANS)
MISCOUNTED = "let the URL lead to the server itself, with nothing in between that changes results, then start again"
MORE_ESCAPES = re.compile(rb"\\[\\bfv]")
UNESCAPED = {b"\\\\": b"\\\\", b"\\b": b"\b", b"\\f": b"\f", b"\\v": b"\v"}


def plain_lines(
    connection: Connection, statement: sql.Composed, refusal: Callable[[int, int], Exception]
) -> Iterator[bytes]:
    """Yield the lines of a COPY, in blocks of whole ones. Raises `refusal` of the server's count and of ours where they
    differ.
    """
    blocks, came = Told(copied(connection, statement)), 0
    for block in blocks:
        came += lines_in(block)
        yield _plain(block)
    if blocks.rows is not None and came != blocks.rows:
        raise refusal(blocks.rows, came)


def _plain(block: bytes) -> bytes:
    """Undo the escapes of three control characters that COPY escapes and our lines do not (rows/lines.py)."""
    if b"\\" not in block or not any(escape in block for escape in (b"\\b", b"\\f", b"\\v")):
        return block
    return MORE_ESCAPES.sub(lambda found: UNESCAPED[found[0]], block)


def copied(connection: Connection, statement: sql.Composed) -> Generator[bytes, None, int]:
    """Give what `COPY … TO STDOUT` gives, and returns how many rows the server says it sent. Raises psycopg.Error. Who leaves
    before the end leaves a closed connection."""
    return _by_line(connection, statement) if _is_plain(connection) else _by_library(connection, statement)


def _is_plain(connection: Connection) -> bool:
    pg = connection.pgconn
    is_bare = not pg.ssl_in_use and not pg.used_gssapi  # who is known by GSSAPI may be encrypted by it, too
    return (
        compiled.NATIVE is not None and is_bare and connection.autocommit and connection.info.transaction_status in IDLE
    )


# --- beside libpq -----------------------------------------------------------------------------------------------------


def _by_line(connection: Connection, statement: sql.Composed) -> Generator[bytes, None, int]:
    text, line, tail = statement.as_bytes(connection) + b"\0", connection.pgconn.socket, b""
    messages, held, error, is_ready = compiled.NATIVE.CopyOut(), bytearray(), None, False
    try:
        _send(line, b"Q" + pack("!I", len(text) + 4) + text)
        while not is_ready:
            said = _received(line)
            tail = said[-TAIL_BYTES:] if len(said) >= TAIL_BYTES else (tail + said)[-TAIL_BYTES:]
            rows, fields, is_ready = messages.feed(said)
            error = error or fields
            held += rows
            if len(held) >= BLOCK_BYTES and not error:
                yield bytes(held)
                held.clear()
        told = 0 if error else rows_told(tail)
    except (OSError, ValueError) as lost:
        raise (_error(error) if error else psycopg.OperationalError(f"{LOST}: {lost}")) from None
    finally:
        if not is_ready:
            connection.close()
    if error:
        raise _error(error)
    if held:
        yield bytes(held)
    return told


def rows_told(tail: bytes) -> int:
    """Return how many rows the server sent, by the end of its answer: CommandComplete, perhaps notices and settings,
    ReadyForQuery.

    A row may hold the same bytes: what counts is the last place from which whole messages lead to the end.
    """
    at = len(tail)
    while (at := tail.rfind(b"C\0\0\0", 0, at)) >= 0:
        if (found := TAG.match(tail, at)) and _leads_to_the_end(tail, at):
            return int(found[1])
    raise ValueError("the server did not say how many rows it sent")


def _leads_to_the_end(tail: bytes, at: int) -> bool:
    while at + 5 <= len(tail):
        at += 1 + int(unpack_from("!I", tail, at + 1)[0])
    return at == len(tail)


def _send(line: int, message: bytes) -> None:
    while message:
        try:
            message = message[os.write(line, message) :]
        except BlockingIOError:
            _wait(line, select.POLLOUT)


def _received(line: int) -> bytes:
    while True:
        try:
            found = os.read(line, BLOCK_BYTES)
        except BlockingIOError:
            _wait(line, select.POLLIN)
        else:
            if not found:
                raise OSError("it has ended")
            return found


def _wait(line: int, event: int) -> None:
    """Wait for the connection, which is libpq's and never blocks."""
    poll = select.poll()
    poll.register(line, event)
    poll.poll()


def _error(fields: bytes) -> psycopg.Error:
    """Build the error of an error message. https://www.postgresql.org/docs/current/protocol-error-fields.html"""
    told = {field[:1]: field[1:].decode("utf-8", "replace") for field in fields.split(b"\0") if field}
    state, text = told.get(b"C", ""), told.get(b"M", "")
    try:
        return psycopg.errors.lookup(state)(text)
    except KeyError:
        error = psycopg.DatabaseError(text)
        error.sqlstate = state
        return error


# --- by libpq ---------------------------------------------------------------------------------------------------------


def _by_library(connection: Connection, statement: sql.Composed) -> Generator[bytes, None, int]:
    """Yield rows taken from libpq itself, at half the time of `Copy.read`, which only has to wait.

    Messages are copied out at once: Python's garbage collector would walk through a list of them over and over, which
    takes longer than all the rest.
    """
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        pg, held, told = connection.pgconn, bytearray(), 0
        take = pg.get_copy_data
        while True:
            count, message = take(1)
            if count < 0:
                told = _end(pg)
                break
            one = message if count else copy.read()
            if not one:
                told = cursor.rowcount
                break
            held += one
            if len(held) >= BLOCK_BYTES:
                yield bytes(held)
                held.clear()
        if held:
            yield bytes(held)
    return told


def _end(pg: psycopg.pq.abc.PGconn) -> int:
    """Take every result behind the last message, also behind an error: the connection is busy until the last one is taken.
    Returns the rows that the server says it sent. Raises psycopg.Error, of the first result that is one."""
    results = list(iter(pg.get_result, None))
    for result in results:
        if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)
    return int(results[-1].command_tuples or 0)
