"""The page of topologies: each line names tests, and all of them exist."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from docs import proofs

PAGE = (proofs.REPOSITORY / "docs" / "explanation" / "topologies.md").read_text()
LINES = [line.split("|") for line in PAGE.splitlines() if line.startswith("| ")][1:]
NAMED = re.compile(r"`(test_\w+\.py)::([\w*]+)`")


@pytest.mark.parametrize("entry", sorted({"::".join(one) for one in NAMED.findall(PAGE)}))
def test_a_test_that_the_page_names_exists(entry: str) -> None:
    file, _, name = entry.partition("::")
    assert any(fnmatchcase(one, name) for one in proofs.functions(proofs.file_of(file)))


def test_every_topology_names_a_test() -> None:
    assert len(LINES) > 10
    assert [line[1].strip() for line in LINES if not NAMED.search(line[4])] == []
