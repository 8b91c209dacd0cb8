"""The header `Idempotency-Key`: a POST with the key of an earlier one is that one, and changes nothing.

What does not live here: what is kept (`manager/repeats.py`).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Response

REPLAYED = "Idempotent-Replayed"
RepeatKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="A word of one's own for this request: for 24 hours the same one returns the first answer.",
    ),
]


def tell_repeat(response: Response, is_repeat: bool) -> None:
    """Say in an answer that it is the one to an earlier request."""
    if is_repeat:
        response.headers[REPLAYED] = "true"
