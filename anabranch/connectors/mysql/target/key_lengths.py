"""Key columns that get a length here, against the values that the source has now: what preflight says of them, and the lengths
that would hold them.

How long a column is made follows the definition alone (columns.py): a table that is made later is made alike. What does not
live here: asking the source (SourceLengths), whether a chosen length fits (preflight_sizes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anabranch.connectors.mysql.target.columns import MadeColumn, keys_of
from anabranch.connectors.mysql.target.release import INDEX_BYTES, Release
from anabranch.connectors.mysql.target.words import sizes
from anabranch.connectors.sql.findings import failed, toml, warning
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

NOT_ASKED = "how long its values are now was not asked: the table is large, or may not be read"
CHOOSE = "[[tables]] columns.type chooses another length"


def check_lengths(
    context: PreflightContext, table: TargetTable, columns: Sequence[MadeColumn], release: Release
) -> Iterator[CheckResult]:
    """Say of each column that a key gives a length how long it is, and how long its values are; refuse one that is too short
    for them. Values that the job may leave out or set aside are no reason to refuse."""
    narrowed, schema = [column for column in columns if column.needed_by], context.tables[table.source]
    if not narrowed:
        return
    longest = context.longest(schema, [column.source for column in narrowed]) or {}
    may_lack = table.source in context.filtered or context.user_choices.get("apply.on_error", "stop") != "stop"
    hint = _hint(schema, table, columns, longest, release)
    for column in narrowed:
        text = f"{column.source} becomes {column.native}, which {column.needed_by} needs"
        length, unit = longest.get(column.source), "characters" if column.is_text else "bytes"
        if length is None:
            yield warning("key", f"{text}: a longer value stops the job; {NOT_ASKED}", CHOOSE, table)
        elif length <= _length(column):
            text = f"{text}: a longer value stops the job; the longest has {length:,} {unit} now"
            yield warning("key", text, CHOOSE, table)
        else:
            why = f"{text}, and the longest value has {length:,} {unit}"
            yield (warning if may_lack else failed)("key", why, hint, table, [column.name])


def _length(column: MadeColumn) -> int:
    return sizes(column.native)[0]


def _hint(
    schema: TableSchema, table: TargetTable, columns: Sequence[MadeColumn], longest: Mapping[str, int], release: Release
) -> str:
    found = proposed(schema, table, columns, longest, release)
    if not found:
        return (
            "no key here has room for it: shorten the values at the source, or leave the table out ([[rules]] exclude)"
        )
    shown = ", ".join(f"{toml(source)} = {toml(native)}" for source, native in found.items())
    return f"[[tables]] name = {toml(str(table.source))}, columns.type = {{ {shown} }}"


def proposed(
    schema: TableSchema, table: TargetTable, columns: Sequence[MadeColumn], longest: Mapping[str, int], release: Release
) -> dict[str, str]:
    """Return types for all columns that keys give a length, by their source names, which hold the longest values: each of
    them and an equal share of the room that is left. {} where a key has no room for them."""
    by_source, found = {column.source: column for column in columns}, dict[str, int]()
    for _, names in keys_of(schema, table):
        parts = [by_source[name] for name in names if name in by_source]
        open_parts = [part for part in parts if part.needed_by]
        if not open_parts:
            continue
        room = INDEX_BYTES - sum(part.index_bytes or 0 for part in parts if not part.needed_by)
        needs = {part.source: longest.get(part.source, _length(part)) * part.character_bytes for part in open_parts}
        spare = (room - sum(needs.values())) // len(open_parts)
        if spare < 0 or max(needs.values()) > release.index_bytes:
            return {}
        for part in open_parts:
            length = min(release.index_bytes, needs[part.source] + spare) // part.character_bytes
            found[part.source] = max(1, min(length, found.get(part.source, length)))
    kinds = {source: "varchar" if by_source[source].is_text else "varbinary" for source in found}
    return {source: f"{kinds[source]}({length})" for source, length in found.items()}
