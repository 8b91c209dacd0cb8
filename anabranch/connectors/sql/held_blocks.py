"""Hold what one statement of a load sends: of a row that the server refuses only its number among them is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def holding(blocks: Iterable[bytes], held: list[bytes], most: int) -> Iterator[bytes]:
    """Pass blocks of lines on and keep them in `held`, until they have `most` bytes or more; the rest stays in `blocks`."""
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        yield block
        if size >= most:
            return
