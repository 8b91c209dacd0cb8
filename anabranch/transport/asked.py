"""Requests for loads on their way back, as a message has them.

What does not live here: where they are kept and answered (trail/load_answers.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.model.ids import TableId
from anabranch.trail.requests import Request
from anabranch.transport.messages import ProtocolError

AT_ONCE = 100  # requests of a message
LONGEST_TABLE, LONGEST_ID = 600, 64  # characters


def asked_for(head: Mapping[str, Any]) -> Iterator[Request]:
    """Yield the requests of a message. Raises ProtocolError for what is none."""
    found = head.get("loads")
    if not isinstance(found, list) or len(found) > AT_ONCE:
        raise ProtocolError("loads are asked for by no list")
    for one in found:
        if not (isinstance(one, list) and len(one) == 3 and all(isinstance(text, str) for text in one[:2])):
            raise ProtocolError("a load is asked for without a table and an id")
        table, id, asked = one
        if not (0 < len(table) <= LONGEST_TABLE and 0 < len(id) <= LONGEST_ID and id.isalnum() and _is_time(asked)):
            raise ProtocolError("a load is asked for by what is no request")
        try:
            yield Request(TableId.parse(table), id, float(asked))
        except ValueError as error:
            raise ProtocolError(f"a load is asked for of no table: {error}") from None


def _is_time(found: object) -> bool:
    return isinstance(found, int | float) and math.isfinite(found)
