"""Verification of the rows that changed since a place of the trail, and of no others: the trail says which these are.

Each is judged as rows that differed beside writers are (again.py), also those that are equal. What does not live here:
which place that is (job/verifying.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.verify.again import LATE, Again
from anabranch.verify.compare import Comparison, Found
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import Difference, TableResult

NO_LOOK = "it changed since, and its rows cannot be looked for by a key: verify it whole"
WHOLE = "all of its rows may have changed since, which the trail does not tell one by one: verify it whole"


def verify_since(again: Again, tables: Sequence[VerifyTable], after: int, limit_keys: int) -> list[TableResult]:
    """Compare rows of these tables that changed behind sequence `after`. Raises TrailError where the trail does not
    reach back."""
    comparison = Comparison({one.table.source: one.table for one in tables}, limit_keys, show_values=False)
    return [_since(again, one, comparison, after) for one in tables]


def _since(again: Again, one: VerifyTable, comparison: Comparison, after: int) -> TableResult:
    if not again.can_find(one):
        return _result(one, [], 0, int(again.has_changed(one, after)), NO_LOOK, comparison.limit_keys)
    found, looked, pending, why = list[Found](), 0, 0, ""
    for keys in again.changed(one, after):
        if keys is None or (keys and again.is_over):
            return _result(
                one, found, looked, max(1, pending), LATE if keys is not None else WHOLE, comparison.limit_keys
            )
        if not keys:
            continue
        settled = again.settle(one, keys, comparison.limit_keys)
        looked, pending, why = looked + len(keys), pending + len(settled.pending), settled.why or why
        found.append(comparison.compare(one.table, settled.source, settled.target))
        if settled.is_cut:
            return _result(one, found, looked, pending, why, comparison.limit_keys, is_complete=False)
    return _result(one, found, looked, pending, why, comparison.limit_keys)


def _result(
    one: VerifyTable,
    found: Sequence[Found],
    looked: int,
    pending: int,
    why: str,
    limit_keys: int,
    is_complete: bool = True,
) -> TableResult:
    kept = [some for part in found for some in part.sample if not (one.is_shared and some.kind == "extra")]
    missing, extra, different = (
        sum(getattr(part, name) for part in found) for name in ("missing", "extra", "different")
    )
    differs = missing or different or (extra and not one.is_shared)
    sample: tuple[Difference, ...] = tuple(kept[:limit_keys])
    return TableResult(
        source=str(one.table.source),
        target=str(one.table.target),
        rows_source=looked,
        rows_target=looked,
        identical=not differs and not pending,
        missing=missing,
        extra=0 if one.is_shared else extra,
        different=different,
        is_complete=is_complete,
        sample=sample,
        others=extra if one.is_shared else 0,
        pending=pending,
        why=why if pending else "",
    )
