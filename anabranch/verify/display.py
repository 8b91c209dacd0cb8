"""The progress of a verification, as one line on a terminal. It shows and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

Tell = Callable[[str, int, int], None]
"""Say what is done, how many of how many parts are; a total of 0: nobody knows."""

FINGERPRINTS, DIGESTS, ROWS, AGAIN = "fingerprints", "digests of rows", "rows that differ", "rows looked at again"


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


@contextmanager
def telling(show: IO[str] | None) -> Iterator[Tell]:
    """Show progress on a terminal; elsewhere nothing."""
    if show is None or not show.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(file=show), transient=True) as shown:
        task = shown.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            shown.update(task, description=what, completed=done, total=total or None)

        yield tell
