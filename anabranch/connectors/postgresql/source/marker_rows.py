"""The job that a row of a marker table names (K21): the first column of its first tuple, in pgoutput's messages. Pure.

Those rows are read by hand: no definition of theirs is in force.
https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

_COUNT, _LENGTH = 3, 4  # bytes: kind of the tuple and number of its columns; a value's length


def job_of(message: bytes, head: int) -> str:
    """Return the job that a row message names, "" where it names none. `head`: bytes before its first tuple."""
    at = head + _COUNT
    if message[at : at + 1] not in (b"t", b"b"):  # as text, or in binary form, which is the same for a text
        return ""
    begin = at + 1 + _LENGTH
    return message[begin : begin + int.from_bytes(message[at + 1 : begin])].decode(errors="replace")
