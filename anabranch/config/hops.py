"""Jobs of which one end is a trail: the hop that a job is, and what its file cannot say then.

A way from a database to a database may be cut into hops, one job file each: a capture writes a trail and needs no target, an
apply reads it and needs no source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Protocol

from anabranch.config.sections.apply import Apply
from anabranch.config.sections.capture import Capture
from anabranch.config.sections.load import Load
from anabranch.config.sections.pair import Pair
from anabranch.config.sections.reverse import Reverse
from anabranch.config.sections.rules import Rule
from anabranch.config.sections.source import Source
from anabranch.config.sections.tables import TableEntry
from anabranch.config.sections.target import NamedTarget, Target
from anabranch.config.sections.trail import Trail
from anabranch.config.sections.types_at_target import Types
from anabranch.databases import registry
from anabranch.model.endpoint import Endpoint

AT_APPLY = "it in the file of the job that applies the trail: what is captured is not yet brought into another form"
AT_CAPTURE = "it in the file of the job that captures: here the trail is read as it is"


NEEDS_SHARED_TRAIL = '[target] url = "trail+file:///DIR/NAME", in a directory that both machines see'


class Hop(StrEnum):
    """A part of a way between two databases."""

    CAPTURE = "capture"  # database -> trail
    APPLY = "apply"  # trail -> database


class Sections(Protocol):
    """The sections of a job file that a trail at an end has to do with."""

    source: Source
    target: Target | None
    targets: list[NamedTarget]
    rules: list[Rule]
    tables: list[TableEntry]
    load: Load
    capture: Capture
    apply: Apply
    types: Types
    reverse: Reverse
    trail: Trail
    pair: Pair | None

    @property
    def ends(self) -> Mapping[str, Endpoint]: ...

    @property
    def keeps_changes(self) -> bool: ...


def hop_of(config: Sections) -> Hop | None:
    """Return the hop that a job is; None for a job with a database at both ends."""
    if is_trail(config.source.endpoint):
        return Hop.APPLY
    return Hop.CAPTURE if any(is_trail(end) for end in config.ends.values()) else None


def is_trail(end: Endpoint) -> bool:
    return registry()[end.scheme].is_trail


def misfits_of_hop(config: Sections) -> Iterator[tuple[str, str]]:
    """Yield what a job with a trail at an end cannot have, and what it can."""
    hop = hop_of(config)
    if config.trail.load_limit_gb is not None and hop is not Hop.CAPTURE:
        yield (
            "[trail] load_limit_gb",
            "it in the file of a job that captures into a trail: only there a load waits for others",
        )
    if config.trail.load_retain_hours is not None and hop is not Hop.CAPTURE:
        yield "[trail] load_retain_hours", "it in the file of a job that captures into a trail"
    if hop is None:
        if config.capture.standby:
            yield "[capture] standby", NEEDS_SHARED_TRAIL
        return
    if config.targets:
        yield "[[targets]] beside a trail", "[target]: several jobs may read one trail, each with a file of its own"
    if config.pair is not None:
        yield "[pair] beside a trail", "databases at both ends: a pair asks each of them for rows of the other"
    if config.reverse.enabled:
        yield "[reverse] beside a trail", "a job for the way back that captures from the target's database"
    yield from _of_capture(config) if hop is Hop.CAPTURE else _of_apply(config)


def _of_capture(config: Sections) -> Iterator[tuple[str, str]]:
    if config.target is not None and config.target.form != "rows":
        yield f'[target] form = "{config.target.form}"', AT_APPLY
    for key in sorted(config.apply.model_fields_set):
        yield f"[apply] {key}", AT_APPLY
    for key in sorted(config.types.model_fields_set - {"zero_date", "nul"}):
        yield f"[types] {key}", AT_APPLY
    for number, rule in enumerate(config.rules):
        if "target" in rule.model_fields_set:
            yield f"[[rules]] {number + 1} target", AT_APPLY
    for entry in config.tables:
        said = {*(entry.model_fields_set - {"name", "id", "columns"}), *entry.columns.model_fields_set} - {
            "drop",
            "zero_date",
        }
        for key in sorted(said):
            yield f"[[tables]] {key} of {entry.id}", AT_APPLY
    if config.load.existing != "refuse":
        yield f'[load] existing = "{config.load.existing}"', AT_APPLY


def _of_apply(config: Sections) -> Iterator[tuple[str, str]]:
    if any(is_trail(end) for end in config.ends.values()):
        yield "[target] url beside a [source] url that is a trail", "a database: a trail is not copied by a job yet"
    if config.source.leave_out:
        yield "[source] leave_out", AT_CAPTURE
    for key in sorted(config.capture.model_fields_set):
        yield f"[capture] {key}", AT_CAPTURE
    if config.load.existing == "take_over":
        yield '[load] existing = "take_over"', "a load: no place of the log can be named where the source is not asked"
    if config.keeps_changes:
        yield "a target that keeps changes", "a target that keeps rows: changes of a trail are not kept yet"
