"""The progress of a verification: a line on a terminal, nothing elsewhere; and times as the command line takes them."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest

from anabranch.cli.verify import parsed_time
from anabranch.verify.display import DIGESTS, silent, telling


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_alone() -> None:
    shown, piped = Terminal(), io.StringIO()
    with telling(shown) as tell:
        tell(DIGESTS, 3, 7)
    assert DIGESTS in shown.getvalue() and "3/7" in shown.getvalue()
    with telling(piped) as tell:
        tell(DIGESTS, 3, 7)
    assert tell is silent and piped.getvalue() == ""
    with telling(None) as tell:
        assert tell is silent


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("2h", 7200.0), ("5", 5.0), (None, None)])
def test_a_budget_is_a_number_and_a_unit(text: str | None, seconds: float | None) -> None:
    assert parsed_time(cast(Any, None), cast(Any, None), text) == seconds
