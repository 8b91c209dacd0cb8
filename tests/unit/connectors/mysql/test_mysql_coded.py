"""Stored forms read without a server: dates that are none, geometry, UUIDs, compressed values, vectors, character sets."""

from __future__ import annotations

import zlib
from datetime import date

import pytest

from anabranch.connectors.mysql import charsets
from anabranch.connectors.mysql.source import coded
from anabranch.connectors.mysql.source.lines import _NO_DATE
from anabranch.connectors.mysql.source.rows_decode import TableDecoders
from anabranch.connectors.mysql.source.tablemap import (
    BLOB_COMPRESSED,
    GEOMETRY,
    LONG,
    VARCHAR,
    VARCHAR_COMPRESSED,
    VECTOR,
    LogColumn,
    TableMap,
)
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.builder import TableBuffer

YEARS = (*range(5), *range(1896, 1910), *range(1996, 2030), 2100, 2399, 2400, 9996, 9999)


def is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def test_pitfall_32_a_line_tells_days_that_are_none_from_others() -> None:
    for year in YEARS:
        for month in range(13):
            for day in range(32):
                cell = b"\xf9%04d-%02d-%02d 00:00:00.000000" % (year, month, day)
                assert (_NO_DATE.fullmatch(cell) is None) == is_day(year, month, day), cell


def test_a_geometry_without_srid_is_wkb_and_with_one_ewkb() -> None:
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    assert coded.ewkb(b"\0\0\0\0" + point) == point
    assert coded.ewkb((4326).to_bytes(4, "little") + point).hex() == "0101000020e6100000" + point[5:].hex()


@pytest.mark.parametrize("stored", ["", "00000000", "0000000000000000", "00000000000100000000", "0000000001010000ff"])
def test_bytes_that_are_no_geometry(stored: str) -> None:
    with pytest.raises(coded.NoGeometry):
        coded.ewkb(bytes.fromhex(stored))


def test_uuids_of_versions_1_to_5_are_turned_around() -> None:
    swapped = bytes.fromhex("426655440000" + "a456" + "12d3" + "e89b" + "123e4567")
    assert coded.uuid_of_record(swapped) == b"123e4567-e89b-12d3-a456-426655440000"
    plain = bytes.fromhex("123e4567e89b72d3a456426655440000")
    assert coded.uuid_of_record(plain) == b"123e4567-e89b-72d3-a456-426655440000"


@pytest.mark.parametrize("bits", [zlib.MAX_WBITS, -zlib.MAX_WBITS])
def test_compressed_values(bits: int) -> None:
    packer = zlib.compressobj(wbits=bits)
    packed = packer.compress(b"x" * 300) + packer.flush()
    head = 0x82 | (8 if bits < 0 else 0)
    assert coded.inflated(bytes([head, 1, 44]) + packed) == b"x" * 300
    assert coded.inflated(b"\0abc") == b"abc" and coded.inflated(b"") == b""
    for broken in (bytes([head, 1, 45]) + packed, bytes([head, 1, 44]) + packed[:-9], b"\x92\x01\x2c" + packed):
        with pytest.raises(ValueError, match="compressed value"):
            coded.inflated(broken)


@pytest.mark.parametrize("type", [VECTOR, VARCHAR])
def test_mysql_contract_vectors_of_the_log(type: int) -> None:
    """MySQL 9 has a type of its own for them, MariaDB 11.7 logs bytes. https://mariadb.com/kb/en/vector/"""
    columns = (
        Column("id", LogicalType(Kind.INT32), "int", nullable=False),
        Column("v", LogicalType(Kind.VECTOR, length=2), "vector(2)", nullable=False),
    )
    schema = TableSchema(TableId("shop", "t"), columns, ("id",))
    length = b"\x08\0\0\0" if type == VECTOR else b"\x08"
    logged = (LogColumn(LONG, nullable=False), LogColumn(type, 4 if type == VECTOR else 8, nullable=False))
    buffer = TableBuffer(schema)
    decoders = TableDecoders(TableMap(schema.id, logged), buffer, ValueRules(), "mysql")
    value = bytes.fromhex("0000803f00002040")
    row = b"\0" + b"\x07\0\0\0" + length + value
    decode, *_ = decoders.decoder(30, b"\x02\x03", False)
    assert decode(row, 0, len(row)) == 1 and buffer.columns == [[7], [value]]


@pytest.mark.parametrize(
    ("type", "meta", "native", "kind", "stored", "what"),
    [
        (GEOMETRY, 4, "geometry", Kind.GEOMETRY, b"", "a geometry of 0 bytes"),
        (GEOMETRY, 4, "point", Kind.GEOMETRY, b"\0\0\0\0\0confidential", "a geometry that begins with"),
        (BLOB_COMPRESSED, 1, "tinyblob", Kind.BINARY, b"\x92\x01\x2cconfidential", "of an unknown method"),
        (
            BLOB_COMPRESSED,
            1,
            "tinytext",
            Kind.TEXT,
            b"\x82\x01\x2cconfidential",
            "a compressed value that cannot be read",
        ),
        (
            VARCHAR_COMPRESSED,
            101,
            "varchar(100)",
            Kind.TEXT,
            b"\x82\x01\x2cno",
            "a compressed value that cannot be read",
        ),
    ],
)
def test_mysql_contract_what_is_no_value_of_its_column_is_refused_with_column_and_key(
    type: int, meta: int, native: str, kind: Kind, stored: bytes, what: str
) -> None:
    """In the second row of two; text also of a character set that is converted here."""
    charset = "latin1" if kind is Kind.TEXT else ""
    columns = (
        Column("id", LogicalType(Kind.INT32), "int", nullable=False),
        Column("v", LogicalType(kind), native, charset=charset),
    )
    schema = TableSchema(TableId("shop", "t"), columns, ("id",))
    logged = (LogColumn(LONG, nullable=False), LogColumn(type, meta, nullable=True))
    decoders = TableDecoders(TableMap(schema.id, logged), TableBuffer(schema), ValueRules(), "mariadb")
    length = len(stored).to_bytes(meta if type == GEOMETRY else 1, "little")
    rows = b"\x02\x06\0\0\0" + b"\x00\x07\0\0\0" + length + stored
    decode, *_ = decoders.decoder(30, b"\x02\x03", False)
    with pytest.raises(charsets.BadValue, match=what) as refused:
        decode(rows, 0, len(rows))
    assert "columns.drop" in refused.value.hint and "confidential" not in str(refused.value)
    assert decoders.refused_value(30, b"\x02\x03", rows, 0, len(rows)) == ("v", {"id": "7"})


@pytest.mark.parametrize(
    ("charset", "stored", "text"),
    [
        ("sjis", "815c 5c 815f", "―\\\\"),
        ("ujis", "a1c0 f5a1 8ff5a1", "\\\ue000\ue3ac"),
        ("eucjpms", "ada1 8fa2b7 8ff4fe f5a1", "①～黑\ue000"),
        ("cp932", "ed40 fa5c 8740", "纊纊①"),
        ("gb18030", "a8bc 8135f437 8130fd38 9439da33", "ḿ\ue7c7\u05fe💩"),
        ("big5", "f9d6 a440", "碁一"),
        ("euckr", "b0a1 8141", "가갂"),
        ("utf16", "d83dde00 0061", "😀a"),
        ("utf16le", "3dd800de", "😀"),
        ("ucs2", "20ac", "€"),
        ("utf32", "0001f600", "😀"),
        ("swe7", "5b5c5d", "ÄÖÅ"),
        ("latin1", "8081ff", "€\x81ÿ"),
        ("geostd8", "c0", "ა"),
        ("keybcs2", "80", "Č"),
    ],
)
def test_character_sets(charset: str, stored: str, text: str) -> None:
    assert charsets.decoder(charset)(bytes.fromhex(stored)).decode() == text


@pytest.mark.parametrize(
    ("charset", "stored"),
    [("gbk", "61a1"), ("gbk", "80"), ("big5", "a4a1 a15a"), ("cp932", "fd"), ("ucs2", "d83dde00"), ("ascii", "80"),
     ("utf8mb4", "eda080"), ("tis620", "db"), ("swe7", "7f"), ("utf32", "00110000"), ("ujis", "8fa1")],
)  # fmt: skip
def test_bytes_that_are_no_text(charset: str, stored: str) -> None:
    with pytest.raises(charsets.BadText, match=f"no {charset} text: {stored.replace(' ', '')}"):
        charsets.decoder(charset)(bytes.fromhex(stored))


def test_a_trail_byte_is_not_taken_for_a_code_that_is_left_out() -> None:
    assert charsets.decoder("big5")(b"\xa4\xa1\x5a").decode() == b"\xa4\xa1".decode("big5") + "Z"


def test_no_character_of_a_set_takes_more_bytes_than_is_said() -> None:
    for name, characters in charsets.UPPER.items():
        assert max(len(c.encode()) for c in characters if c != charsets.NO_CHARACTER) <= charsets.character_bytes(
            name
        ), name
    assert [charsets.character_bytes(name) for name in ("ascii", "latin1", "utf8mb3", "gb18030", "utf8mb4", "")] == [
        1,
        3,
        3,
        4,
        4,
        4,
    ]
