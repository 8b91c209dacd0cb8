"""Partial updates of MySQL's JSON: differences in the log become the whole document, from the image before it.

Documents are text here, as SELECT shows them, and stay so to the letter: numbers are never read, only moved. A difference
is an operation, a path and a value in binary form.
https://dev.mysql.com/doc/refman/8.0/en/replication-options-binary-log.html#sysvar_binlog_row_value_options
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from anabranch.connectors.mysql.source.binlog import packed_integer
from anabranch.connectors.mysql.source.json_binary import to_text

REPLACE, INSERT, REMOVE = 0, 1, 2
OPTION = 1  # of a row: bits follow that say which JSON columns are differences, one for each that the table has
_LEG = re.compile(r'\.(?P<name>"(?:[^"\\]|\\.)*"|[^.\[\]"\s]+)|\[(?P<index>\d+)\]')


class NoBefore(ValueError):
    """The document that the differences change is not in the row's image before."""


class _Number(str):
    """A number as it is written."""


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number)


def patched(before: bytes | None, differences: bytes) -> bytes:
    """Apply differences to a document. Raises ValueError for differences that lead nowhere in it."""
    if before is None:
        raise NoBefore("a JSON column is logged by its differences only, and the image before has not the document")
    if not differences:
        return before
    document = [_DECODER.decode(before.decode())]
    for operation, path, value in _parsed(differences):
        _change(document, operation, [0, *_legs(path)], value)
    return _text(document[0]).encode()


def _parsed(data: bytes) -> Iterator[tuple[int, str, Any]]:
    at = 0
    while at < len(data):
        operation = data[at]
        path, at = _counted(data, at + 1)
        value = None
        if operation != REMOVE:
            binary, at = _counted(data, at)
            value = _DECODER.decode(to_text(binary).decode())
        yield operation, path.decode(), value


def _counted(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = packed_integer(data, at)
    if at + length > len(data):
        raise ValueError("a difference of a JSON document is cut short")
    return data[at : at + length], at + length


def _legs(path: str) -> Iterator[str | int]:
    """Yield keys and places from the document's root on. https://dev.mysql.com/doc/refman/8.0/en/json.html#json-path-syntax"""
    at = 1
    while at < len(path):
        found = _LEG.match(path, at)
        if path[0] != "$" or found is None:
            raise ValueError(f"{path[:80]!r} is no path in a JSON document")
        name = found["name"]
        if name is None:
            yield int(found["index"])
        else:
            yield json.loads(name) if name.startswith('"') else name
        at = found.end()


def _change(document: list[Any], operation: int, legs: list[str | int], value: Any) -> None:
    """Carry out one difference. `document` is a list of the root alone, so that the root, too, can be replaced."""
    place: Any = document
    for leg in legs[:-1]:
        place = place[leg] if _has(place, leg) else None
    last = legs[-1]
    if operation == REPLACE and _has(place, last):
        place[last] = value
    elif operation == REMOVE and _has(place, last) and place is not document:
        del place[last]
    elif operation == INSERT and isinstance(place, list) and isinstance(last, int) and place is not document:
        place.insert(last, value)  # behind the end: at the end
    elif operation == INSERT and isinstance(place, dict) and isinstance(last, str) and last not in place:
        place[last] = value
        _sort(place)
    else:
        raise ValueError(f"difference {operation} of a JSON document leads to a place that is not there")


def _has(place: Any, leg: str | int) -> bool:
    if isinstance(leg, int):
        return isinstance(place, list) and leg < len(place)
    return isinstance(place, dict) and leg in place


def _sort(members: dict[str, Any]) -> None:
    """Sort keys by length, then by bytes, as the server does."""
    ordered = sorted(members.items(), key=lambda one: (len(one[0].encode()), one[0].encode()))
    members.clear()
    members.update(ordered)


def _text(node: Any) -> str:
    if isinstance(node, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(value)}" for key, value in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(map(_text, node)) + "]"
    return str(node) if isinstance(node, _Number) else json.dumps(node, ensure_ascii=False)
