"""Lines of a chunk, sent in pieces that are held until the server has said that it took them all; and which row it was that it
did not take as it is.

The server names a row by its number for some reasons only (not for a key that is there already), so it is found by loading
halves: what is loaded without complaint stays, in the rest the first half is loaded next. Values of rows get into no message,
its key does. What does not live here: how lines are sent (`load_data.py`), numbers of errors (`errors.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import pymysql

from anabranch.connectors.mysql.errors import number_and_text
from anabranch.connectors.mysql.target.errors import Meaning, describe, meaning
from anabranch.connectors.mysql.target.load_data import Way, insert, send
from anabranch.connectors.mysql.target.local_lines import NoRow, key_text, lines_of
from anabranch.connectors.mysql.target.session import Connection, Loaded, run, warned
from anabranch.connectors.sql.held_blocks import holding
from anabranch.errors import RowRefused, TargetError
from anabranch.rows.counted import lines_in
from anabranch.rows.net import TargetTable

PACKET = "SET GLOBAL max_allowed_packet = 1073741824 at the target, then start again"
UNIQUE = (
    "the target table had this key before the load, or the source has rows that are equal there: give the column the source's"
    " collation"
)
NULLS = "the target's column takes no NULL: ALTER TABLE … MODIFY …, or load the table with --recreate"
# Number of an error or warning -> what to do, for what only a load meets; others: `errors.py`.
HINTS = {
    1062: UNIQUE, 1586: UNIQUE,  # https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
    1301: PACKET, 1153: PACKET,
    1048: NULLS, 1263: NULLS,
}  # fmt: skip
HELD_BYTES = 16 << 20  # one statement: a refused row is looked up among its lines
PLACE = re.compile(r" at row \d+(?= |$)|^Row \d+ ")
UNSAID = "the target warned about the row but kept no text of the warning: SET GLOBAL max_error_count = 64 there"
ELSE = "look for triggers at the target that remove rows, then load the table again"


class Complaint(NamedTuple):
    """The server's word against lines. `number` is 0 where it says nothing, and took another number of rows."""

    number: int
    text: str


Sending = Callable[[Connection, Way, Iterable[bytes]], Loaded]


def copy(connection: Connection, job: str, table: TargetTable, number: int, way: Way, lines: Iterable[bytes]) -> int:
    """Load all lines of a chunk inside the open transaction, and return how many they are. Raises RowRefused with the row's
    key, or TargetError where rows were lost that the server says nothing of."""
    total, blocks = 0, iter(lines)
    for first in blocks:
        held: list[bytes] = []
        run(connection, "SAVEPOINT anabranch_piece")
        if loaded(connection, way, holding(chain([first], blocks), held, HELD_BYTES), held) is not None:
            run(connection, "ROLLBACK TO SAVEPOINT anabranch_piece")
            raise _refusal(connection, job, table, number, way, held)
        total += sum(map(lines_in, held))
    return total


def loaded(
    connection: Connection, way: Way, blocks: Iterable[bytes], held: Sequence[bytes], how: Sending = send
) -> Complaint | None:
    """Load the lines of `blocks`, which stand in `held` once they are sent. Returns what is wrong, if anything is."""
    try:
        taken = how(connection, way, blocks)
    except NoRow as error:
        return Complaint(error.number, str(error))
    except pymysql.err.Error as error:
        number, text = number_and_text(error)
        if not connection.open or not (number in HINTS or meaning(number, text).meaning is Meaning.CONFLICT):
            raise
        return Complaint(number, _plain(number, text))
    if taken.warnings:
        said = warned(connection)  # nothing where max_error_count is 0
        return Complaint(said[0].number, _plain(said[0].number, said[0].text)) if said else Complaint(1265, UNSAID)
    sent = sum(map(lines_in, held))
    return None if taken.rows == sent else Complaint(0, f"{sent} rows were sent, and the server took {taken.rows}")


def _plain(number: int, text: str) -> str:
    """Return what the server says, without the row's values and its place among those of one statement."""
    return PLACE.sub("", describe(number, text))


def _refusal(
    connection: Connection, job: str, table: TargetTable, number: int, way: Way, held: Sequence[bytes]
) -> TargetError:
    """Return the error for lines of a chunk that were not taken, and are rolled back. Leaves the transaction to be rolled
    back, too. The one line is sent as an INSERT, for the words of an error instead of those of a warning."""
    line, complaint = _first(connection, way, lines_of(held))
    if line:
        run(connection, "ROLLBACK TO SAVEPOINT anabranch_half")
        complaint = loaded(connection, way, [line], [line], insert) or complaint
    if not complaint.number:
        message = f"load chunk {number} of {table.target}: {complaint.text}"
        return TargetError(message, table=str(table.source), job=job, hint=ELSE)
    return RowRefused(
        f"{complaint.text}; {key_text(table, line)}", hint=hint_of(complaint), job=job, table=str(table.source)
    )


def hint_of(complaint: Complaint) -> str:
    """Return what is to be done where the server has this against a row."""
    return HINTS.get(complaint.number) or meaning(complaint.number, complaint.text).hint


def _first(connection: Connection, way: Way, lines: list[bytes]) -> tuple[bytes, Complaint]:
    """Return the first line that is not taken behind those before it, and why; no line where all are taken now."""
    while lines:
        middle = (len(lines) + 1) // 2
        run(connection, "SAVEPOINT anabranch_half")
        complaint = loaded(connection, way, [b"".join(lines[:middle])], lines[:middle])
        if complaint is None:
            lines = lines[middle:]
        elif middle == 1:
            return lines[0], complaint
        else:
            run(connection, "ROLLBACK TO SAVEPOINT anabranch_half")
            lines = lines[:middle]
    return b"", Complaint(0, "the server did not take all rows that were sent, and took them when they were sent again")
