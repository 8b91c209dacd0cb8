"""MySQL's binary form of JSON becomes JSON text, printed as the server prints it.

The format: https://dev.mysql.com/doc/dev/mysql-server/latest/json__binary_8h.html. Text comes out with a space after
`:` and `,` and keys in stored order (length, then bytes), as SELECT shows it.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable

from anabranch.connectors.mysql.source.binlog import part

_TEXT_PER_BYTE = 16  # characters of text that a byte may come to, and more than any does
_SHARED = "JSON values that share their bytes"
_LITERALS = {0: "null", 1: "true", 2: "false"}
_PLAIN = (-14, 15)  # places of the decimal point, from the first digit, without exponent; further if digits follow it
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes of 0..9 leftover digits of a DECIMAL
_BASE64_LINE, _NEWLINE = 76, "\\n"  # the server breaks lines
_DATE, _TIME, _DATETIME, _TIMESTAMP, _DECIMAL = 10, 11, 12, 7, 246


def to_text(data: bytes) -> bytes:
    """Write binary JSON as text in UTF-8. Raises ValueError for bytes that are no JSON value."""
    if not data:
        return b"null"  # what a NOT NULL column holds that was never given a value
    try:
        return _value(data[0], data, 1).encode()
    except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"no binary JSON: {error}") from error
    except RecursionError:
        raise ValueError("no binary JSON: a value that contains itself") from None


def _value(kind: int, data: bytes, at: int) -> str:
    return _READERS[kind](data, at)


def _small_object(data: bytes, at: int) -> str:
    return _container(data, at, "<H", True)


def _large_object(data: bytes, at: int) -> str:
    return _container(data, at, "<I", True)


def _small_array(data: bytes, at: int) -> str:
    return _container(data, at, "<H", False)


def _large_array(data: bytes, at: int) -> str:
    return _container(data, at, "<I", False)


def _container(data: bytes, at: int, number: str, keyed: bool) -> str:
    """Count and size, then key entries (offset, length), then value entries (type, offset or the value itself)."""
    width = struct.calcsize(number)
    count, size = struct.unpack_from(number + number[1:], data, at)
    if at + size > len(data):
        raise ValueError("a JSON value is cut short")
    entry = at + 2 * width
    left = _TEXT_PER_BYTE * size  # values that share bytes would come to any amount of text
    keys = []
    if keyed:
        for index in range(count):
            offset, length = struct.unpack_from(number + "H", data, entry + index * (width + 2))
            keys.append(_quoted(part(data, at + offset, length)[0]))
            left -= len(keys[-1])
            if left < 0:
                raise ValueError(_SHARED)
        entry += count * (width + 2)
    values = []
    for index in range(count):
        place = entry + index * (width + 1)
        kind = data[place]
        if kind not in _INLINE[width]:
            (offset,) = struct.unpack_from(number, data, place + 1)
            place = at + offset - 1
        values.append(_value(kind, data, place + 1))
        left -= len(values[-1])
        if left < 0:
            raise ValueError(_SHARED)
    if keyed:
        return "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True)) + "}"
    return "[" + ", ".join(values) + "]"


def _number(code: str) -> Callable[[bytes, int], str]:
    form = struct.Struct(code)
    return lambda data, at: str(form.unpack_from(data, at)[0])


def _literal(data: bytes, at: int) -> str:
    return _LITERALS[data[at]]


def _double(data: bytes, at: int) -> str:
    return double_text(struct.unpack_from("<d", data, at)[0])


def double_text(value: float) -> str:
    """Return the shortest digits that read back equal, as the server's my_gcvt writes them: 1.0, 0.00001, 1e16, 1.5e-20.

    https://github.com/mysql/mysql-server/blob/8.0/strings/dtoa.cc"""
    text = repr(abs(value))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + (len(digits) - len(fraction) if whole == "0" else len(whole))
    digits = digits.rstrip("0") or "0"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if not value or (point >= _PLAIN[0] and (point <= _PLAIN[1] or len(digits) > point)):
        plain = text if "e" not in text else digits.rjust(len(digits) - point, "0")
        return sign + (plain if "e" not in text else f"0.{plain}")
    return f"{sign}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1}"


def _string(data: bytes, at: int) -> str:
    length, at = _length(data, at)
    return _quoted(part(data, at, length)[0])


def _quoted(text: bytes) -> str:
    return json.dumps(text.decode(), ensure_ascii=False)


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Read a length: seven bits per byte, the high bit says that another follows; five bytes at most."""
    length = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length, at
    raise ValueError("a JSON value's length has more than five bytes")


def _opaque(data: bytes, at: int) -> str:
    kind = data[at]
    length, at = _length(data, at + 1)
    body = part(data, at, length)[0]
    if kind == _DECIMAL:
        return decimal_text(body)
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP) and length == 8:
        return f'"{_temporal(kind, int.from_bytes(body[:8], "little", signed=True))}"'
    encoded = base64.b64encode(body).decode()
    lines = [encoded[at : at + _BASE64_LINE] for at in range(0, len(encoded), _BASE64_LINE)]
    return f'"base64:type{kind}:{_NEWLINE.join(lines)}"'


def decimal_text(body: bytes) -> str:
    """Write a DECIMAL: precision, scale, then the packed digits."""
    precision, scale, packed = body[0], body[1], bytearray(body[2:])
    negative = not packed[0] & 0x80
    packed[0] ^= 0x80
    if negative:
        packed = bytearray(byte ^ 0xFF for byte in packed)
    whole = precision - scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    digits, at = "", 0
    if whole < 0 or len(packed) != sum(_DIGIT_BYTES[group] for group in groups):
        raise ValueError(f"a decimal of {precision} digits, {scale} of them behind the point, in {len(packed)} bytes")
    for group in groups:
        width = _DIGIT_BYTES[group]
        if group:
            digits += str(int.from_bytes(packed[at : at + width], "big")).rjust(group, "0")
        at += width
    text = digits[:whole].lstrip("0") or "0"
    return ("-" if negative else "") + text + ("." + digits[whole:] if scale else "")


def _temporal(kind: int, packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micros, whole = packed & 0xFFFFFF, packed >> 24
    clock = f"{whole >> 12 & 0x1F:02}:{whole >> 6 & 0x3F:02}:{whole & 0x3F:02}.{micros:06}"
    if kind == _TIME:
        return f"{sign}{whole >> 12 & 0x3FF:02}{clock[2:]}"
    day, month = whole >> 17 & 0x1F, whole >> 22
    date = f"{month // 13:04}-{month % 13:02}-{day:02}"
    return date if kind == _DATE else f"{date} {clock}"


_READERS: dict[int, Callable[[bytes, int], str]] = {
    0x00: _small_object,
    0x01: _large_object,
    0x02: _small_array,
    0x03: _large_array,
    0x04: _literal,
    0x05: _number("<h"),
    0x06: _number("<H"),
    0x07: _number("<i"),
    0x08: _number("<I"),
    0x09: _number("<q"),
    0x0A: _number("<Q"),
    0x0B: _double,
    0x0C: _string,
    0x0F: _opaque,
}
_INLINE = {2: {0x04, 0x05, 0x06}, 4: {0x04, 0x05, 0x06, 0x07, 0x08}}  # values that stand in their entry
