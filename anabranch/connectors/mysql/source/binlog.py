"""Events of the binary log as bytes: numbers, names, header, and parsers of everything but rows and table maps. Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html
https://mariadb.com/kb/en/replication-protocol/
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from struct import Struct
from zlib import crc32

from pymysql.charset import charset_by_id

from anabranch.errors import UnknownLogEvent

PACKET = Struct("<IBIBIIIH")
"""A packet with an event: length (24 bits) and number (8), status, then the event's header: seconds, type, server id,
size, position after it (32 bits), flags."""
HEADER = 19  # bytes of an event's header
GIANT = 0xFFFFFF  # a packet of this length is continued by the next
_SHORTEST_FORMAT = 62  # bytes of its body with checksum: version, the server's, time, length of a header, algorithm
ARTIFICIAL, IGNORABLE = 0x20, 0x80  # flags
CHECKSUM = 4  # bytes
KEYS_OFF = 0x02  # flag of a rows event: the session had foreign_key_checks = 0

QUERY, STOP, ROTATE, FORMAT, XID, LOAD_QUERY = 2, 3, 4, 15, 16, 18
TABLE_MAP, INCIDENT, HEARTBEAT, HEARTBEAT_V2 = 19, 26, 27, 41
WRITE, UPDATE, DELETE = ROWS = (23, 30), (24, 31), (25, 32)  # v1, v2
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS, XA_PREPARE = 33, 34, 35, 38
PARTIAL_UPDATE, PAYLOAD, TAGGED_GTID = 39, 40, 42
MARIADB_GTID, MARIADB_GTID_LIST = 162, 163
GTIDS = frozenset((GTID, ANONYMOUS_GTID, TAGGED_GTID, PREVIOUS_GTIDS, MARIADB_GTID, MARIADB_GTID_LIST))
COMPRESSED_QUERY = 165
# Events whose content is compressed, and what they are.
COMPRESSED = {
    PAYLOAD: "transaction payload",
    COMPRESSED_QUERY: "compressed query",
    **dict.fromkeys((166, 169), "compressed write rows"),
    **dict.fromkeys((167, 170), "compressed update rows"),
    **dict.fromkeys((168, 171), "compressed delete rows"),
}
NO_PACKET = bytes(5)  # instead of a packet's head, before an event that is alone

# Events that carry nothing for us, each looked at and found harmless. Others are flagged ignorable by the source: MariaDB's
# start encryption (164), whose log it sends decrypted. https://mariadb.com/kb/en/encrypting-binary-logs/
HARMLESS = {
    STOP: "stop",
    **dict.fromkeys((5, 13, 14), "values that the next statement uses"),  # that statement is looked at
    **dict.fromkeys((9, 11, 17), "a file that a LOAD DATA statement reads"),
    28: "ignorable",
    29: "rows query",
    36: "transaction context",
    37: "view change",
    160: "annotate rows",
    161: "binlog checkpoint",
}
# Events that stop the job: name and remedy.
LOAD_AGAIN = "remove the job's state (anabranch drop JOB --execute) and load again"
START_AGAIN = f"start the job again; if it stops here again, {LOAD_AGAIN}"
WHOLE_DOCUMENTS = (
    "SET GLOBAL binlog_row_image = 'FULL' (or binlog_row_value_options = '') at the source, reconnect its sessions,"
    " load again"
)
REFUSED = {
    1: ("start v3", f"the source's log is older than MySQL 5.0: {LOAD_AGAIN}"),
    6: ("load", "SET GLOBAL binlog_format = ROW at the source, load again"),
    7: ("slave", f"this version cannot read it: {LOAD_AGAIN}"),
    8: ("create file", "SET GLOBAL binlog_format = ROW at the source, load again"),
    10: ("exec load", "SET GLOBAL binlog_format = ROW at the source, load again"),
    12: ("new load", "SET GLOBAL binlog_format = ROW at the source, load again"),
    **dict.fromkeys((20, 21, 22), ("rows of MySQL 5.1 betas", f"this version cannot read them: {LOAD_AGAIN}")),
}

_QUERY = Struct("<IIBHH")  # thread, seconds it took, length of the schema's name, error, length of the status variables
_LOAD_FILE = 13  # number of the file, two places in the statement, what to do with rows that are there already
# Bytes of a status variable by its number, in the order the server writes them; -1: a byte of length first, -2: and a NUL.
# https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Query__event.html
_STATUS_WIDTH = {0: 4, 1: 8, 2: -2, 3: 4, 4: 6, 5: -1, 6: -1, 7: 2, 8: 2}
_STATUS_CHARSET = 4


FARTHEST = 1 << 31  # bytes from an event to the next: what looks farther goes back, as positions have 32 bits
# What bytes that are no event raise while they are read.
UNREADABLE = (ValueError, LookupError, ArithmeticError, struct.error, RecursionError, MemoryError)
_FILE = re.compile(r"[^/\\\0]+\.\d{6,}", re.ASCII)


def unreadable(error: Exception, position: str) -> UnknownLogEvent:
    """Return the error of our tree for an event whose bytes are none."""
    told = str(error) or type(error).__name__
    return UnknownLogEvent(f"an event in the log cannot be read: {told}", position=position, hint=START_AGAIN)


@dataclass(frozen=True, slots=True)
class Query:
    """A statement and the schema it ran in."""

    sql: str
    schema: str


def parse_query(body: bytes) -> Query:
    """Return a QUERY event without header and checksum."""
    _, _, schema_length, _, status_length = _QUERY.unpack_from(body)
    at = _QUERY.size + status_length
    schema = body[at : at + schema_length].decode("utf-8", "replace")
    encoding = _client_encoding(body[_QUERY.size : at])
    return Query(body[at + schema_length + 1 :].decode(encoding, "replace"), schema)


def load_query(body: bytes) -> bytes:
    """Return an EXECUTE_LOAD_QUERY event as a QUERY event, without what it says of the file."""
    return body[: _QUERY.size] + body[_QUERY.size + _LOAD_FILE :]


def sql_place(body: bytes) -> int:
    """Find where in a QUERY event the statement's text begins."""
    _, _, schema_length, _, status_length = _QUERY.unpack_from(body)
    return _QUERY.size + int(status_length) + int(schema_length) + 1


def event_length(data: bytes, at: int) -> int:
    """Return the length of the event whose header is at `at`, with its header."""
    return int.from_bytes(data[at + 9 : at + 13], "little")


def _client_encoding(status: bytes) -> str:
    """Return the encoding of the statement's text: the client's character set among the status variables."""
    at = 0
    while at < len(status):
        number, at = status[at], at + 1
        if number == _STATUS_CHARSET:
            return _encoding(int.from_bytes(status[at : at + 2], "little"))
        width = _STATUS_WIDTH.get(number)
        if width is None:
            break
        at += width if width >= 0 else status[at] - width
    return "utf-8"


def _encoding(collation: int) -> str:
    try:
        return str(charset_by_id(collation).encoding or "utf-8")
    except KeyError:
        return "utf-8"


@dataclass(frozen=True, slots=True)
class Prepare:
    """An XA_PREPARE event: the end of an XA transaction's rows. `is_commit`: XA COMMIT … ONE PHASE."""

    xid: str
    is_commit: bool


_PREPARE = Struct("<BIII")  # one phase, format, bytes of both parts of the xid
_XID = re.compile(r"X'([0-9A-F]*)',\s*X'([0-9A-F]*)',\s*(\d+)", re.IGNORECASE)


def parse_prepare(body: bytes) -> Prepare:
    """Parse an XA_PREPARE event.

    https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1XA__prepare__event.html
    """
    one_phase, form, first, second = _PREPARE.unpack_from(body)
    end = _PREPARE.size + first + second
    if end > len(body):
        raise ValueError("its xid is cut short")
    middle = _PREPARE.size + first
    return Prepare(xid_text(form, body[_PREPARE.size : middle], body[middle:end]), bool(one_phase))


def xid_text(form: int, first: bytes, second: bytes) -> str:
    """Return an xid as statements in the log spell it."""
    return f"X'{first.hex()}',X'{second.hex()}',{form}"


def xid_of(sql: str) -> str:
    """Return the xid that an XA statement in the log names. Raises ValueError."""
    found = _XID.search(sql)
    if found is None:
        raise ValueError("it names no xid")
    return xid_text(int(found[3]), bytes.fromhex(found[1]), bytes.fromhex(found[2]))


def parse_rotate(body: bytes) -> tuple[str, int]:
    """Return the file that comes next and where in it. Raises ValueError."""
    file, place = body[8:].decode(), int.from_bytes(body[:8], "little")
    if not _FILE.fullmatch(file) or place >> 63:
        raise ValueError(f"no file of a log and no place in it: {file!r}, {place}")
    return file, place


def has_checksum(event: bytes) -> bool:
    """Ask a whole FORMAT event: do events of this log end in a CRC32? Raises ValueError where its own does not fit.

    The algorithm's number is the byte before the event's own checksum, which is there even if the algorithm is 0 (then it
    is of other bytes); servers before 5.6.1 write neither. https://dev.mysql.com/worklog/task/?id=2540"""
    body = event[HEADER:]
    version = body[2:52].split(b"\0")[0].decode("ascii", "replace")
    parts = [int("".join(c for c in part if c.isdigit()) or 0) for part in version.split("-")[0].split(".")[:3]]
    if tuple(parts) < (5, 6, 1) and "mariadb" not in version.lower():
        return False
    if len(body) < _SHORTEST_FORMAT or body[-5] > 1:
        raise ValueError(f"a log's description with checksum algorithm {body[-5:-4].hex()}")
    told = int.from_bytes(body[-4:], "little")
    is_kept = told == crc32(event[:-5] + b"\1")
    if is_kept != body[-5]:
        raise ValueError("the checksum of a log's description is wrong")
    return is_kept


def parse_heartbeat(kind: int, body: bytes, position: int) -> tuple[str, int]:
    """Return the file and position of a heartbeat; version 1 has 32 bits of the position in its header."""
    if kind == HEARTBEAT:
        return body.decode("utf-8", "replace"), position
    file, at = "", 0
    while at + 2 <= len(body) and body[at]:  # fields: number, length, value
        length = body[at + 1]
        value = body[at + 2 : at + 2 + length]
        if body[at] == 1:
            file = value.decode("utf-8", "replace")
        elif body[at] == 2:
            position = _packed(value)
        at += 2 + length
    return file, position


def _packed(value: bytes) -> int:
    """Return a length-encoded integer.
    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html
    """
    return packed_integer(value, 0)[0]


def part(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return `size` bytes at `at`, and the place after them. Raises ValueError where there are fewer."""
    end = at + size
    if end > len(data):
        raise ValueError(f"it is {end - len(data)} bytes too short")
    return data[at:end], end


def packed_integer(data: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded integer at `at`, and the place after it."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width
