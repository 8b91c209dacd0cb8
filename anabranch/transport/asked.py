"""Requests for loads, and questions of those who verify, on their way back, as messages have them.

What does not live here: where they are kept and answered (trail/load_answers.py, trail/checks.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.model.ids import TableId
from anabranch.trail.checks import Question
from anabranch.trail.requests import Request
from anabranch.transport.messages import ProtocolError

AT_ONCE = 100  # requests of a message
LONGEST_TABLE, LONGEST_ID = 600, 64  # characters
LONGEST_QUESTION = 200_000  # characters of what is asked: a message has room for more


def asked_for(head: Mapping[str, Any]) -> Iterator[Request]:
    """Yield the requests of a message. Raises ProtocolError for what is none."""
    found = head.get("loads")
    if not isinstance(found, list) or len(found) > AT_ONCE:
        raise ProtocolError("loads are asked for by no list")
    for one in found:
        if not (isinstance(one, list) and len(one) == 3 and all(isinstance(text, str) for text in one[:2])):
            raise ProtocolError("a load is asked for without a table and an id")
        table, id, asked = one
        yield Request(_table(table, id, asked), id, float(asked))


def is_short(question: Question) -> bool:
    """Return whether a message has room for a question."""
    return len(json.dumps(question.what)) <= LONGEST_QUESTION


def as_message(question: Question) -> dict[str, Any]:
    return {"table": str(question.table), "id": question.id, "asked": question.asked, "what": question.what}


def questioned(head: Mapping[str, Any]) -> Question:
    """Return the question of a message. Raises ProtocolError for what is none."""
    table, id, asked, what = (head.get(name) for name in ("table", "id", "asked", "what"))
    if not (isinstance(table, str) and isinstance(id, str) and isinstance(what, dict)):
        raise ProtocolError("rows are asked about without a table, an id or a question")
    found = Question(_table(table, id, asked), id, float(asked or 0), what)
    if not is_short(found):
        raise ProtocolError("a question about rows is too long")
    return found


def _table(table: str, id: str, asked: object) -> TableId:
    """Return the table that is asked for. Raises ProtocolError unless all of it is what a request has."""
    is_id = 0 < len(id) <= LONGEST_ID and id.isascii() and id.isalnum()
    if not (0 < len(table) <= LONGEST_TABLE and is_id and _is_time(asked)):
        raise ProtocolError("a table is asked for by what is no request")
    try:
        return TableId.parse(table)
    except ValueError as error:
        raise ProtocolError(f"what is asked for is no table: {error}") from None


def _is_time(found: object) -> bool:
    return isinstance(found, int | float) and math.isfinite(found)
