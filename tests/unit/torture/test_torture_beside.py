"""What readers of the target may see of two-phase commits beside a history."""

from __future__ import annotations

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.beside import Beside

A, B = (b"10\tx0", b"11\tx1"), (b"20\tx0",)


def beside() -> Beside:
    server = Server("mysql", "8.0", "127.0.0.1", 1, "root", "")
    found = Beside(server, Database(server, "torture_1"), "torture_1", 1)
    found._rows.update({1: frozenset(A), 2: frozenset(B)})
    return found


@pytest.mark.parametrize(
    ("states", "losses", "what"),
    [
        ([(), A, (*B, *A)], 0, ""),
        ([B, A], 0, "were there before"),
        ([A, B, A], 1, "were there before"),
        ([A, B], 1, ""),
        ([A[:1], A], 0, "no whole transactions"),
        ([(*A, B[0], B[0])], 0, "no whole transactions"),
        ([(*A, b"30\tx0")], 0, "no whole transactions"),
    ],
)
def test_two_phase_commits_are_seen_whole_and_stay(states: list[tuple[bytes, ...]], losses: int, what: str) -> None:
    found = beside().wrong([b"".join(line + b"\n" for line in state) for state in states], losses)
    assert what in found and bool(found) == bool(what)
