"""Text of a source that its server cannot give as UTF-8: which row has it, and sessions that get it as it is stored.

A database in SQL_ASCII may hold any bytes, and some encodings have bytes without a character: the server then refuses the whole
statement, and names no row. https://www.postgresql.org/docs/current/multibyte.html
What does not live here: values of the log (message_buffer.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, column_list
from anabranch.connectors.postgresql.copy_out import copied
from anabranch.connectors.postgresql.source.connection import open_session, own_rows
from anabranch.connectors.postgresql.source.errors import translate
from anabranch.errors import SourceError
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import TableSchema
from anabranch.rows.refused import LEAVE_OUT, NO_TEXT, readable, refused

NO_ENCODING = "SQL_ASCII"
# The bytes are none of the encoding; the character is not in the other one.
UNCONVERTED = (psycopg.errors.CharacterNotInRepertoire, psycopg.errors.UntranslatableCharacter)


@contextmanager
def named(
    endpoint: Endpoint, table: TableSchema, columns: Sequence[str], condition: sql.Composable, doing: str
) -> Iterator[None]:
    """Add column and row to the error of a value that the server cannot convert: they are looked for in another session."""
    try:
        yield
    except UNCONVERTED as error:
        refusal = translate(error, doing)
        raise _found(endpoint, table, columns, condition) or _not_found(refusal, table, columns) from None


def _not_found(error: SourceError, table: TableSchema, columns: Sequence[str]) -> SourceError:
    """Return the error when the row is not found: it was changed meanwhile, or Python does not know the encoding."""
    error.table = str(table.id)
    error.message += f" (one of the columns {', '.join(columns)})"
    error.hint = LEAVE_OUT
    return error


def _found(
    endpoint: Endpoint, table: TableSchema, columns: Sequence[str], condition: sql.Composable
) -> SourceError | None:
    asked = [*columns, *(name for name in table.primary_key if name not in columns)]
    query = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT").format(
        column_list(asked), own_rows(table), condition
    )
    with closing(open_session(endpoint, limited=False)) as connection:
        encoding = server_encoding(connection)
        try:
            connection.execute(as_stored(encoding))
            codec = codec_of(connection)
            for block in copied(connection, query):
                if not block.isascii() and (line := _first_bad(block, codec)) is not None:
                    return _refusal(table, asked, line, codec, encoding)
        except psycopg.Error:
            return None
    return None


def server_encoding(connection: Connection) -> str:
    return connection.info.parameter_status("server_encoding") or ""


def codec_of(connection: Connection) -> str:
    """Return Python's name for the encoding of a session that gets text as it is stored; without an encoding it has to
    be UTF-8.

    Raises psycopg.NotSupportedError.
    """
    return "utf-8" if server_encoding(connection) == NO_ENCODING else connection.info.encoding


def as_stored(encoding: str) -> bytes:
    """Return the setting for a session whose text the server neither converts nor checks."""
    return f"SET client_encoding = '{encoding}'".encode()


def _first_bad(block: bytes, codec: str) -> bytes | None:
    if is_text(block, codec):
        return None
    return next((line for line in block.split(b"\n") if not is_text(line, codec)), None)


def is_text(stored: bytes, codec: str) -> bool:
    try:
        stored.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def _refusal(table: TableSchema, columns: Sequence[str], line: bytes, codec: str, encoding: str) -> SourceError:
    cells = dict(zip(columns, line.split(b"\t"), strict=True))
    column = next(name for name, cell in cells.items() if not is_text(cell, codec))
    key = {name: _key_text(cells[name], codec) for name in table.primary_key}
    return refused(table.id, column, key, no_character(encoding))


def no_character(encoding: str) -> str:
    return NO_TEXT if encoding == NO_ENCODING else f"bytes that have no character in {encoding}"


def _key_text(cell: bytes, codec: str) -> str | None:
    from anabranch.rows.lines import NULL, unescape  # with pyarrow.compute, which capture goes without

    if cell == NULL.encode():
        return None
    stored = unescape(cell)
    return stored.decode(codec) if is_text(stored, codec) else readable(stored)
