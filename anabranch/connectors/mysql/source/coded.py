"""Values that the server stores in a form of its own and that are read here: geometry, addresses, UUIDs, vectors,
compressed columns. Pure; from bytes to the trail's raw values, and to text forms for the load.

What does not live here: character sets (`charsets.py`), dates and labels (`values.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from socket import AF_INET, AF_INET6, inet_ntop
from struct import Struct

from anabranch.connectors.mysql.charsets import BadStored, decoder
from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget
from anabranch.model.datatype import Kind, LogicalType

_SRID_IN_TYPE = b"\x20"  # the highest byte of a little-endian EWKB type that has an SRID
_HEADER = Struct("<IB")
_LITTLE_ENDIAN = 1


class NoGeometry(BadStored):
    """Bytes that are no geometry as the servers store it."""


class NotInflated(BadStored):
    """Bytes that are no value of a COMPRESSED column."""


def ewkb(stored: bytes) -> bytes:
    """Convert a geometry, stored as its SRID and little-endian WKB, to WKB with the SRID in it where there is one.

    https://dev.mysql.com/doc/refman/8.0/en/gis-data-formats.html · https://postgis.net/docs/ST_AsEWKB.html. Coordinates
    stay in the order in which they are stored: x, y; in MySQL 8 longitude, latitude for every geographic system.
    """
    if len(stored) < 9:
        raise NoGeometry(f"a geometry of {len(stored)} bytes")
    srid, order = _HEADER.unpack_from(stored)
    if order != _LITTLE_ENDIAN or stored[8]:
        raise NoGeometry(f"a geometry that begins with {stored[:9].hex()}")
    return stored[4:8] + _SRID_IN_TYPE + stored[:4] + stored[9:] if srid else stored[4:]


def address(stored: bytes) -> bytes:
    """Convert INET4 (4 bytes) or INET6 (16) to the address as text. https://mariadb.com/kb/en/inet6/"""
    return inet_ntop(AF_INET if len(stored) == 4 else AF_INET6, stored).encode()


def uuid_of_record(stored: bytes) -> bytes:
    """Convert a UUID as MariaDB's records and log have it to canonical text.

    Versions 1 to 5 are stored with their parts in reverse order, so that those made one after another stand together.
    https://mariadb.com/kb/en/uuid-data-type/, plugin/type_uuid/sql_type_uuid.h
    """
    if len(stored) != 16:
        raise ValueError(f"a UUID of {len(stored)} bytes")
    if stored[6] & 0x80 and 0 < stored[8] < 0x60:
        stored = stored[12:16] + stored[10:12] + stored[8:10] + stored[6:8] + stored[:6]
    digits = stored.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}".encode()


def inflated(stored: bytes) -> bytes:
    """Decompress a value of a COMPRESSED column of MariaDB.

    It is nothing; or a byte 0 and the value; or a byte that says how, the length of the value in as many bytes as its
    lowest three bits say, and what zlib made of it, without its frame if bit 3 is set.
    https://mariadb.com/kb/en/storage-engine-independent-column-compression/, sql/field_comp.cc
    """
    if not stored:
        return b""
    head, size = stored[0], stored[0] & 7
    if not head:
        return stored[1:]
    if head >> 4 != 8:
        raise NotInflated(f"a compressed value of an unknown method ({head >> 4})")
    length = int.from_bytes(stored[1 : 1 + size], "big")
    try:
        value = zlib.decompress(stored[1 + size :], -zlib.MAX_WBITS if head & 8 else zlib.MAX_WBITS, length)
    except zlib.error as error:
        raise NotInflated(f"a compressed value that cannot be read: {error}") from error
    if len(value) != length:
        raise NotInflated(f"a compressed value of {len(value)} bytes instead of {length}")
    return value


def as_it_is(stored: bytes) -> bytes:
    return stored


# --- for the load: by the name that stands in a line before the digits (`expressions.py`) -----------------------------

CODES: Mapping[Kind, tuple[str, Callable[[bytes], bytes]]] = {
    Kind.GEOMETRY: ("geometry", ewkb),
    Kind.INET: ("inet", address),
    Kind.VECTOR: ("vector", as_it_is),
}
_BY_NAME = {name: (kind, read) for kind, (name, read) in CODES.items()}


def text_form(name: str, rules: ValueRules) -> Callable[[bytes], bytes]:
    """Return the function that converts stored bytes of a coded kind or a character set to text form; it raises ValueError."""
    if name not in _BY_NAME:
        return decoder(name)
    kind, read = _BY_NAME[name]
    if kind is Kind.INET:
        return read
    from anabranch.rows.lines import one_text  # with Arrow, which who only asks for definitions goes without

    type = LogicalType(kind, at_target=AtTarget(rules.text_of(kind)))
    return lambda stored: one_text(type, read(stored))
