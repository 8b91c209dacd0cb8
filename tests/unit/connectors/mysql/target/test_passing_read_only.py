"""Rights that let the job's user pass `read_only`, by kind and release of the server."""

from __future__ import annotations

import pytest

from anabranch.connectors.mysql.target.passing import passes


@pytest.mark.parametrize(
    ("kind", "release", "granted", "has_super"),
    [
        ("mariadb", (10, 4, 34), "SUPER", True),
        ("mariadb", (10, 5, 2), "READ_ONLY ADMIN", True),
        ("mariadb", (10, 11, 0), "READ_ONLY ADMIN", False),
        ("mysql", (5, 7, 44), "SUPER", True),
        ("mysql", (8, 0, 33), "CONNECTION_ADMIN", True),
    ],
)
def test_the_right_that_a_release_knows_is_asked_for(
    kind: str, release: tuple[int, ...], granted: str, has_super: bool
) -> None:
    found = passes(kind, release)
    assert found[0] == granted and ("SUPER" in found) is has_super
