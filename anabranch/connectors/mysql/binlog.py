"""Events of the binary log as bytes: numbers, names, header, and parsers of everything but rows and table maps. Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html
https://mariadb.com/kb/en/replication-protocol/
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from struct import Struct

from pymysql.charset import charset_by_id

PACKET = Struct("<IBIBIIIH")
"""A packet with an event: length (24 bits) and number (8), status, then the event's header: seconds, type, server id,
size, position after it (32 bits), flags."""
HEADER = 19  # bytes of an event's header
GIANT = 0xFFFFFF  # a packet of this length is continued by the next
ARTIFICIAL, IGNORABLE = 0x20, 0x80  # flags
CHECKSUM = 4  # bytes
KEYS_OFF = 0x02  # flag of a rows event: the session had foreign_key_checks = 0

QUERY, STOP, ROTATE, INTVAR, RAND, USER_VAR, FORMAT, XID = 2, 3, 4, 5, 13, 14, 15, 16
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
REFUSED = {
    1: ("start v3", f"the source's log is older than MySQL 5.0: {LOAD_AGAIN}"),
    INTVAR: ("intvar", "SET GLOBAL binlog_format = ROW at the source, reconnect its sessions, load again"),
    6: ("load", "SET GLOBAL binlog_format = ROW at the source, load again"),
    7: ("slave", f"this version cannot read it: {LOAD_AGAIN}"),
    8: ("create file", "SET GLOBAL binlog_format = ROW at the source, load again"),
    9: ("append block", "SET GLOBAL binlog_format = ROW at the source, load again"),
    10: ("exec load", "SET GLOBAL binlog_format = ROW at the source, load again"),
    11: ("delete file", "SET GLOBAL binlog_format = ROW at the source, load again"),
    12: ("new load", "SET GLOBAL binlog_format = ROW at the source, load again"),
    RAND: ("rand", "SET GLOBAL binlog_format = ROW at the source, reconnect its sessions, load again"),
    USER_VAR: ("user variable", "SET GLOBAL binlog_format = ROW at the source, reconnect its sessions, load again"),
    17: ("begin load query", "SET GLOBAL binlog_format = ROW at the source, load again"),
    18: ("execute load query", "SET GLOBAL binlog_format = ROW at the source, load again"),
    **dict.fromkeys((20, 21, 22), ("rows of MySQL 5.1 betas", f"this version cannot read them: {LOAD_AGAIN}")),
    PARTIAL_UPDATE: (
        "partial update rows",
        "SET GLOBAL binlog_row_value_options = '' at the source, reconnect its sessions, load again",
    ),
}

_QUERY = Struct("<IIBHH")  # thread, seconds it took, length of the schema's name, error, length of the status variables
# Bytes of a status variable by its number, in the order the server writes them; -1: a byte of length first, -2: and a NUL.
# https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Query__event.html
_STATUS_WIDTH = {0: 4, 1: 8, 2: -2, 3: 4, 4: 6, 5: -1, 6: -1, 7: 2, 8: 2}
_STATUS_CHARSET = 4


@dataclass(frozen=True, slots=True)
class Query:
    """A statement and the schema it ran in."""

    sql: str
    schema: str


def parse_query(body: bytes) -> Query:
    """A QUERY event without header and checksum."""
    _, _, schema_length, _, status_length = _QUERY.unpack_from(body)
    at = _QUERY.size + status_length
    schema = body[at : at + schema_length].decode("utf-8", "replace")
    encoding = _client_encoding(body[_QUERY.size : at])
    return Query(body[at + schema_length + 1 :].decode(encoding, "replace"), schema)


def sql_place(body: bytes) -> int:
    """Where in a QUERY event the statement's text begins."""
    _, _, schema_length, _, status_length = _QUERY.unpack_from(body)
    return _QUERY.size + int(status_length) + int(schema_length) + 1


def event_length(data: bytes, at: int) -> int:
    """Of the event whose header is at `at`, with its header."""
    return int.from_bytes(data[at + 9 : at + 13], "little")


def _client_encoding(status: bytes) -> str:
    """The encoding of the statement's text: the client's character set among the status variables."""
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
    """https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1XA__prepare__event.html"""
    one_phase, form, first, second = _PREPARE.unpack_from(body)
    end = _PREPARE.size + first + second
    if end > len(body):
        raise ValueError("its xid is cut short")
    middle = _PREPARE.size + first
    return Prepare(xid_text(form, body[_PREPARE.size : middle], body[middle:end]), bool(one_phase))


def xid_text(form: int, first: bytes, second: bytes) -> str:
    """An xid as statements in the log spell it."""
    return f"X'{first.hex()}',X'{second.hex()}',{form}"


def xid_of(sql: str) -> str:
    """The xid that an XA statement in the log names. Raises ValueError."""
    found = _XID.search(sql)
    if found is None:
        raise ValueError("it names no xid")
    return xid_text(int(found[3]), bytes.fromhex(found[1]), bytes.fromhex(found[2]))


def parse_rotate(body: bytes) -> tuple[str, int]:
    """The file that comes next and where in it."""
    return body[8:].decode(), int.from_bytes(body[:8], "little")


def has_checksum(body: bytes) -> bool:
    """Of a FORMAT event's body with everything behind it: do events of this log end in a CRC32?

    The algorithm's number is the byte before the event's own checksum, which is there even if the algorithm is 0;
    servers before 5.6.1 write neither. https://dev.mysql.com/worklog/task/?id=2540"""
    version = body[2:52].split(b"\0")[0].decode("ascii", "replace")
    parts = [int("".join(c for c in part if c.isdigit()) or 0) for part in version.split("-")[0].split(".")[:3]]
    if tuple(parts) < (5, 6, 1) and "mariadb" not in version.lower():
        return False
    return body[-5] == 1


def parse_heartbeat(kind: int, body: bytes, position: int) -> tuple[str, int]:
    """File and position that a heartbeat says; version 1 has 32 bits of the position in its header."""
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
    """A length-encoded integer. https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html"""
    return packed_integer(value, 0)[0]


def packed_integer(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer at `at`, and the place after it."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width
