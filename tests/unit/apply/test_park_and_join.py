"""A table that was parked in the trail, and brought in again for another target before this one has come there."""

from __future__ import annotations

import pytest

from anabranch.apply.plan import group
from anabranch.errors import StateError
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk
from rigs.chunks import INT, chunk_of, context, schema

OLD = schema("items", {"id": INT}, ["id"])
OTHER = schema("other", {"n": INT}, ["n"])
NEW = schema("items", {"id": INT, "more": INT}, ["id"]).with_version(2)
PARK = Barrier(0, 0, BarrierKind.PARK, OLD.id, "ALTER", "altered")
JOIN = Barrier(0, 0, BarrierKind.SCHEMA, OLD.id, schema=NEW)


def trail() -> list[Chunk]:
    before = chunk_of([[("i", {"id": 1})], [("i", {"n": 1})]], [OLD, OTHER], first=1)
    after = chunk_of([[("i", {"id": 2, "more": 2})], [("i", {"n": 2})]], [NEW, OTHER], first=5)
    return [before, chunk_of([[]], [], first=3, barriers=[PARK]), chunk_of([[]], [], first=4, barriers=[JOIN]), after]


@pytest.mark.parametrize("windows", [{}, {"items": (0, 9)}])
def test_rule_15_what_comes_behind_its_barrier_is_left_out(windows: dict[str, tuple[int, int]]) -> None:
    """It waits for its load here, too; the others go on."""
    found = group(trail(), context([OLD, OTHER], windows))
    assert {table.name: len(images) for table, images in found.images.items()} == {"items": 1, "other": 2}
    assert [(one.table, one.sequence) for one in found.parked] == [(OLD.id, 3)]


def test_rule_15_rows_of_another_definition_without_a_barrier_are_refused() -> None:
    before, _, join, after = trail()
    for chunks in ([before, join, after], [after]):
        with pytest.raises(StateError, match="rows of definition version 2 where version 1 was loaded"):
            group(chunks, context([OLD, OTHER]))


def test_rule_15_who_has_loaded_the_newer_one_passes_over_the_older() -> None:
    found = group(trail(), context([NEW, OTHER], {"items": (4, 4)}))
    assert {table.name: len(images) for table, images in found.images.items()} == {"items": 1, "other": 2}
