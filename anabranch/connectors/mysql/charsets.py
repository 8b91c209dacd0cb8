"""Character sets of MySQL and MariaDB: how their bytes become UTF-8, exactly as the server itself converts them.

Facts: https://dev.mysql.com/doc/refman/8.0/en/charset-charsets.html · https://mariadb.com/kb/en/supported-character-sets-and-collations/
and the servers' own answers for every code, with which a live test compares. Python's codecs are right for the sets of
several bytes, but for the few codes listed here. What does not live here: SQL (`expressions.py`), bytes of a row image.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from anabranch.connectors.mysql.single_byte import UPPER

Decoder = Callable[[bytes], bytes]

NO_CHARACTER = "\ufffe"  # in tables: a code that stands for nothing
_ASCII = "".join(map(chr, range(128)))
_SWE7 = str.maketrans(
    "@[\\]^`{|}~\x7f", "É" + "ÄÖÅÜ" + "é" + "äöåü" + NO_CHARACTER
)  # national letters instead of signs

# Sets with characters beyond U+FFFF: https://dev.mysql.com/doc/refman/8.0/en/charset-unicode.html and charset-gb18030.html
_BEYOND_BMP = ("", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030")


class BadValue(ValueError):
    """A value that no target holds; its text says what stands there, `hint` what to do once the log has it."""

    hint = ""


class BadStored(BadValue):
    """Bytes that say nothing in their column."""

    hint = (
        "the log keeps it: correct the row at the source, then load the table again; or leave the column out ([[tables]]"
        " columns.drop)"
    )


class BadText(BadStored):
    """Bytes that are no text of their column's character set."""


@dataclass(frozen=True, slots=True)
class Charset:
    """`longest`: bytes of the longest character. `codec`: Python's name, "" for a table of single bytes. `moved`: characters
    that Python gives for a code of which the server has another, or none. `more`: the first of consecutive codes that
    Python does not have -> their characters. `without`: codes of two bytes that the server does not have. `same`: a code
    that is to be read as another one."""

    longest: int = 1
    codec: str = ""
    is_utf8: bool = False
    has_ascii: bool = True  # bytes below 0x80 are ASCII, wherever they do not belong to a longer character
    unknown: tuple[bytes, ...] = (b"?",)  # what CONVERT shows for codes without a character; (): it may lose them
    moved: Mapping[str, str] | None = None
    more: Mapping[bytes, str] | None = None
    without: tuple[bytes, ...] = ()
    same: tuple[bytes, bytes] | None = None


def _private(start: int, lead: bytes) -> dict[bytes, str]:
    """Map ten rows of 94 private characters, from row 0xF5 on."""
    return {
        lead + bytes((0xF5 + row, 0xA1)): "".join(chr(start + 94 * row + cell) for cell in range(94))
        for row in range(10)
    }


_PRIVATE_EUC = {**_private(0xE000, b""), **_private(0xE3AC, b"\x8f")}
# Rows of NEC and IBM that EUC as Python knows it does not have.
_NEC_ROW_13 = (
    "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ\ufffe㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡"
    "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪"
)
_IBM_ROW_84 = (
    "ⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤\ufa0e咊坙\ufa0f\ufa10增寬峵嵓\ufa11德悅愠敎昻晥\ufa12\uf929栁\ufa13\ufa14橫櫢淸淲瀨"
    "\ufa15\ufa16甁皂皞\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d綠緖\ufa1e荢\ufa1f薰\ufa20\ufa21蠇\ufa22譿賴赶"
    "\ufa23\ufa24\ufa25郞\ufa26鄕\ufa27\ufa28閒\uf9dc\ufa29霻靍靑\ufa2a\ufa2b\ufa2c馞髙魲\ufa2d黑"
)

CHARSETS: Mapping[str, Charset] = {
    "utf8mb4": Charset(4, is_utf8=True),
    "utf8mb3": Charset(3, is_utf8=True),
    "utf8": Charset(3, is_utf8=True),
    "ascii": Charset(1),  # old servers and MariaDB store any byte in it
    **dict.fromkeys(UPPER, Charset(1)),
    "tis620": Charset(1, unknown=(b"?", "\ufffd".encode())),
    "swe7": Charset(1, has_ascii=False),
    "big5": Charset(
        2,
        "big5",
        more={b"\xf9\xd6": "碁銹裏墻恒粧嫺"},  # of the extension ETEN
        # Unicode's own table leaves these open: https://www.unicode.org/Public/MAPPINGS/OBSOLETE/EASTASIA/OTHER/BIG5.TXT
        without=(b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"),
        unknown=(b"?", "\ufffd".encode()),
    ),
    "gb2312": Charset(2, "gb2312"),
    "gbk": Charset(2, "gbk"),
    # The edition of 2005, in which two codes changed places.
    "gb18030": Charset(4, "gb18030", moved={"\ue7c7": "ḿ", "ḿ": "\ue7c7"}),
    "euckr": Charset(2, "cp949"),
    "sjis": Charset(2, "shift_jis", moved={"＼": "\\"}),
    "cp932": Charset(2, "cp932", moved=dict.fromkeys("\x80\uf8f0\uf8f1\uf8f2\uf8f3", NO_CHARACTER)),
    "ujis": Charset(3, "euc_jp", moved={"＼": "\\"}, more=_PRIVATE_EUC),
    "eucjpms": Charset(
        3,
        "euc_jp",
        moved=dict(zip("〜‖−¢£¬¦", "～∥－￠￡￢￤", strict=True)),
        more={**_PRIVATE_EUC, b"\xad\xa1": _NEC_ROW_13, b"\x8f\xf3\xf3": "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡ", b"\x8f\xf4\xa1": _IBM_ROW_84},
        same=(b"\x8f\xa2\xb7", b"\xa1\xc1"),
    ),
    "ucs2": Charset(2, "utf-16-be", has_ascii=False, unknown=()),
    "utf16": Charset(4, "utf-16-be", has_ascii=False, unknown=()),
    "utf16le": Charset(4, "utf-16-le", has_ascii=False, unknown=()),
    "utf32": Charset(4, "utf-32-be", has_ascii=False, unknown=()),
}


def is_utf8(charset: str) -> bool:
    """Return whether this character set's bytes are UTF-8 as they are."""
    return charset in CHARSETS and CHARSETS[charset].is_utf8


@cache
def character_bytes(charset: str) -> int:
    """Return the most that a character of the set takes in UTF-8."""
    return 1 if charset == "ascii" else 4 if charset in _BEYOND_BMP else 3


def is_total(charset: str) -> bool:
    """Return whether every byte has a character, so that no conversion can lose one."""
    return NO_CHARACTER not in UPPER.get(charset, NO_CHARACTER)


@cache
def decoder(charset: str) -> Decoder:
    """Return the function that converts bytes of this character set to UTF-8; it raises BadText. Raises KeyError for an
    unknown set.
    """
    facts = CHARSETS[charset]
    if not facts.codec and not facts.is_utf8:
        return _of_single_bytes(charset)
    to_text = bytes.decode if facts.is_utf8 else _several_bytes(charset, facts)
    is_bad = _doubt(charset, facts)

    def decode(value: bytes) -> bytes:
        try:
            text = to_text(value)
        except UnicodeDecodeError as error:
            raise _bad(charset, value) from error
        if is_bad and is_bad(text, value):
            raise _bad(charset, value)
        return text.encode()

    return decode


@cache
def ambiguous(charset: str) -> frozenset[str]:
    """Return the characters that have more than one code."""
    decode, seen, twice = decoder(charset), set[bytes](), set[bytes]()
    for code in _all_codes(CHARSETS[charset]):
        try:
            character = decode(code)
        except BadText:
            continue
        (twice if character in seen else seen).add(character)
    return frozenset(character.decode() for character in twice)


def _all_codes(facts: Charset) -> Iterator[bytes]:
    """Yield every code of the sets in which a character may have two; the forms of Unicode and GB18030 are one to one."""
    if facts.longest == 4 or not facts.has_ascii:
        return
    yield from (bytes((byte,)) for byte in range(256))
    if facts.longest > 1:
        pairs = [bytes((lead, trail)) for lead in range(0x81, 0xFF) for trail in range(0x40, 0xFF)]
        yield from pairs
        if facts.longest > 2:
            yield from (b"\x8f" + pair for pair in pairs)


def _doubt(charset: str, facts: Charset) -> Callable[[str, bytes], bool] | None:
    """Return a test for what the codec accepts although it is no text to the server; None where there is nothing."""
    if charset == "ucs2":  # it knows no pairs of surrogates
        return lambda text, value: text != "" and max(text) > "\uffff"
    if facts.without:
        codes = b"|".join(map(re.escape, facts.without))
        found = re.compile(rb"(?:[\x00-\x80]|[^\x00-\x80].)*?(?:" + codes + rb")", re.DOTALL).match
        return lambda text, value: found(value) is not None
    if facts.moved and NO_CHARACTER in facts.moved.values():
        return lambda text, value: NO_CHARACTER in text
    return None


def _bad(charset: str, value: bytes) -> BadText:
    shown = value[:24].hex() + "…" * (len(value) > 24)
    return BadText(f"bytes that are no {charset} text: {shown}")


def _of_single_bytes(charset: str) -> Decoder:
    """Return a decoder that makes a single call: latin1 is in every old database."""
    table = _ASCII.translate(_SWE7) if charset == "swe7" else _ASCII + UPPER.get(charset, "")
    characters = codecs.charmap_decode

    def decode(value: bytes) -> bytes:
        try:
            return characters(value, "strict", table)[0].encode()
        except UnicodeDecodeError as error:
            raise _bad(charset, value) from error

    return decode


def _several_bytes(charset: str, facts: Charset) -> Callable[[bytes], str]:
    errors = "strict"
    if facts.more:
        errors = f"anabranch-{charset}"
        codecs.register_error(errors, _reads(_codes(facts.more)))
    codec = codecs.lookup(facts.codec).decode
    moved = str.maketrans(dict(facts.moved)) if facts.moved else None

    def to_text(value: bytes) -> str:
        text = codec(value if facts.same is None else value.replace(*facts.same), errors)[0]
        return text.translate(moved) if moved else text

    return to_text


def _codes(more: Mapping[bytes, str]) -> dict[bytes, str]:
    return {
        first[:-1] + bytes((first[-1] + place,)): character
        for first, characters in more.items()
        for place, character in enumerate(characters)
        if character != NO_CHARACTER
    }


def _reads(more: Mapping[bytes, str]) -> Callable[[UnicodeError], tuple[str, int]]:
    """Return an error handler that knows more codes. Only where the codec stopped matters, not how far it looked."""

    def handle(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        for length in (2, 3):
            found = more.get(error.object[error.start : error.start + length])
            if found:
                return found, error.start + length
        raise error

    return handle
