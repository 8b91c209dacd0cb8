"""The text of a schema of Protobuf as a registry takes it, and numbers of fields read back out of such a text.

A registry prints a text in its own manner (without our comments, with other blanks), so it is read by tokens. Only what this
package writes is read: messages, fields, reserved numbers. https://protobuf.dev/reference/protobuf/proto3-spec/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.rows.messages.protobuf.numbers import HIGHEST, Numbers
from anabranch.rows.messages.protobuf.schemas import (
    DECIMAL_FILE,
    Field,
    File,
    Message,
    own_json_name,
    usual_json_name,
)

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[\w.\-]+)|(?P<mark>[^\s\w])""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_LABELS = frozenset({"optional", "repeated", "required"})


class Unreadable(ValueError):
    """A text is no schema as this package writes them."""


def text_of(file: File) -> str:
    """Return the schema as a registry takes it."""
    lines = ['syntax = "proto3";']
    if file.package:
        lines.append(f"package {file.package};")
    if file.has_decimals:
        lines.append(f'import "{DECIMAL_FILE}";')
    root, *inner = file.messages
    lines += ["", f"message {root.name} {{", *_body(root, "  ")]
    for one in inner:
        lines += ["", f"  message {one.name} {{", *_body(one, "    "), "  }"]
    return "\n".join([*lines, "}", ""])


def _body(message: Message, indent: str) -> Iterator[str]:
    if gaps := list(message.numbers.reserved()):
        yield f"{indent}reserved {', '.join(f'{low} to {high}' if low < high else str(low) for low, high in gaps)};"
    for one in message.fields:
        yield indent + _line(one)


def _line(one: Field) -> str:
    name = own_json_name(one)
    kind = f".{one.type}" if "." in one.type else one.type
    front = f"{one.label} {kind}" if one.label else kind
    note = f"  // {one.note}" if one.note else ""
    return f"{front} {one.name} = {one.number}{f' [json_name = {_quoted(name)}]' if name else ''};{note}"


def _quoted(text: str) -> str:
    written = (_ESCAPES.get(one, one if one >= " " else f"\\{ord(one):03o}") for one in text)
    return f'"{"".join(written)}"'


# --- read back --------------------------------------------------------------------------------------------------------


def numbers_in(text: str) -> dict[str, Numbers]:
    """Return the numbers of fields by the name in JSON, which is that of the column, of each message of a text by its name.
    Raises Unreadable."""
    try:
        return dict(_Reading(text).messages())
    except (ValueError, IndexError) as error:
        raise Unreadable(str(error) or "it ends too early") from error


class _Reading:
    """Reads tokens: words and marks as they are, texts with their mark in front."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"what stands at {text[at : at + 20]!r}")
            at = found.end()
            if found.lastgroup:
                self._tokens.append(found[0])
        self._at = 0

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def messages(self) -> Iterator[tuple[str, Numbers]]:
        while self._at < len(self._tokens):
            if self._next() == "message":
                yield from self._message()
            else:
                self._rest()

    def _rest(self) -> list[str]:
        """Return the tokens up to the end of a statement."""
        found = []
        while (one := self._next()) != ";":
            if one in "{}":
                raise ValueError(f"a statement with {one}")
            found.append(one)
        return found

    def _message(self) -> Iterator[tuple[str, Numbers]]:
        name, fields, types, highest = self._next(), dict[str, int](), dict[str, str](), 0
        self._expect(self._next(), "{")
        while (word := self._next()) != "}":
            if word == "message" and self._tokens[self._at + 1] == "{":
                yield from self._message()
            elif word == "reserved":
                highest = max(highest, *_reserved(self._rest()))
            elif word != ";" and word != "option":
                told, number, types[told] = self._field([word, *self._rest()])
                fields[told] = number
            elif word == "option":
                self._rest()
        yield name, Numbers(fields, max(highest, *fields.values(), 0), types)

    def _field(self, tokens: list[str]) -> tuple[str, int, str]:
        """Return a field's name in JSON, its number and its type."""
        if tokens[0] in _LABELS and tokens[2] != "=":
            tokens = tokens[1:]
        name, equals, number, *options = tokens[1:]
        self._expect(equals, "=")
        return _json_name(options) or usual_json_name(name), int(number, 0), tokens[0]

    @staticmethod
    def _expect(found: str, wanted: str) -> None:
        if found != wanted:
            raise ValueError(f"{found!r} in place of {wanted!r}")


def _reserved(tokens: list[str]) -> Iterator[int]:
    yield 0
    for one in tokens:
        if one == "max":
            yield HIGHEST
        elif one.isdigit():
            yield int(one)


def _json_name(options: list[str]) -> str:
    for at, one in enumerate(options):
        if one == "json_name":
            return _text(options[at + 2])
    return ""


def _text(token: str) -> str:
    """Return what a text in quotation marks says: escapes of numbers are bytes of UTF-8."""
    inner, found, at = token[1:-1], bytearray(), 0
    for escape in _ESCAPED.finditer(inner):
        found += inner[at : escape.start()].encode() + _unescaped(escape[0][1:])
        at = escape.end()
    return (found + inner[at:].encode()).decode()


def _unescaped(what: str) -> bytes:
    if what[0] in "01234567":
        return bytes([int(what, 8)])
    if what[0] == "x" and len(what) > 1:
        return bytes([int(what[1:], 16)])
    if what[0] in "uU" and len(what) > 1:
        return chr(int(what[1:], 16)).encode()
    return _SIMPLE_ESCAPES.get(what, what).encode()
