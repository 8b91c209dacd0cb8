"""The job that a row of a marker table names (K21): the first column of its first image. Pure.

Those rows are read by hand: no definition of theirs is in force.
https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Rows__event.html
"""

from __future__ import annotations

from anabranch.connectors.mysql.source.binlog import DELETE, PARTIAL_UPDATE, UPDATE, WRITE, packed_integer

# Sets of columns that an event names. With binlog_row_value_options = PARTIAL_JSON updates are partial ones, whose row before
# is as ever.
_IMAGES = {**dict.fromkeys((*WRITE, *DELETE), 1), **dict.fromkeys((*UPDATE, PARTIAL_UPDATE), 2)}


def job_of(data: bytes, at: int, kind: int) -> str:
    """Return the job that a rows event names, "" where it names none. `at`: behind the event's head, where its columns are
    counted. Raises IndexError for bytes that are no such event.

    The column is a VARCHAR of up to 255 bytes, whose length has one byte.
    """
    columns, at = packed_integer(data, at)
    width = (columns + 7) // 8
    present = int.from_bytes(data[at : at + width], "little")
    at += width * _IMAGES.get(kind, 0)
    if kind not in _IMAGES or not present & 1 or data[at] & 1:  # the column is not in the image, or NULL
        return ""
    at += (present.bit_count() + 7) // 8
    return data[at + 1 : at + 1 + data[at]].decode(errors="replace")
