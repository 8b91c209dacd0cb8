"""The output of `anabranch parked`, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anabranch.state.store import time_text

if TYPE_CHECKING:
    from anabranch.lifecycle.parking import ParkedTable
    from anabranch.rows.aside import AsideChange

SHOWN = 20  # rows in the list of all tables; --json has all of them


def facts(one: ParkedTable) -> dict[str, Any]:
    return {**asdict(one), "source": str(one.source), "target": str(one.target)}


def row_facts(one: AsideChange) -> dict[str, Any]:
    return {
        "number": one.number,
        "position": {"text": one.position, "commit_time": time_text(one.commit_time)},
        "source": str(one.source),
        "target": str(one.target),
        "key": one.key,
        "operation": one.operation,
        "before": one.before,
        "after": one.after,
        "unconverted": one.unconverted,
        "reason": one.reason,
        "wish": one.wish,
        "discarded": one.is_discarded,
        "set_aside_at": time_text(one.set_aside_at),
    }


def listed_facts(tables: Sequence[ParkedTable], rows: Sequence[AsideChange]) -> dict[str, Any]:
    return {"version": 1, "parked": [facts(one) for one in tables], "set_aside": [row_facts(one) for one in rows]}


def listed(tables: Sequence[ParkedTable], rows: Sequence[AsideChange]) -> Iterator[str]:
    if not tables and not rows:
        yield "no table is parked"
    if tables:
        yield f"{'TABLE':<30} {'WAITING':>12} {'HELD BYTES':>14}  BACK BY"
    for one in tables:
        waiting, size = (f"{one.waiting:,}", f"{one.held_bytes:,}") if one.held_bytes else ("-", "-")
        yield f"{one.source!s:<30} {waiting:>12} {size:>14}  {one.back_by or '-'}"
        yield f"    {one.reason}"
    if rows:
        yield from ([""] if tables else [])
        yield from _row_lines(rows[:SHOWN])
        yield from ([f"… {len(rows) - SHOWN:,} more: anabranch parked show JOB TABLE"] if len(rows) > SHOWN else [])
        tables_with_rows = dict.fromkeys(one.source for one in rows)
        yield from (f"back by anabranch parked release JOB {table.typed} --all" for table in tables_with_rows)


def _row_lines(rows: Sequence[AsideChange]) -> Iterator[str]:
    yield f"{'N':>6} {'ROW SET ASIDE OF':<30} {'CHANGE':<7} {'KEY':<24} POSITION"
    for one in rows:
        yield f"{one.number:>6} {one.source!s:<30} {one.operation:<7} {_key(one):<24} {one.position}"
        yield f"    {_reason(one)}"


def _reason(one: AsideChange) -> str:
    asked = f" — {one.wish} is asked for" if one.wish else ""
    return ("discarded: " if one.is_discarded else "") + one.reason + asked


def _key(one: AsideChange) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in one.key.items())


def _value(value: str | None) -> str:
    return "NULL" if value is None else value


def shown(tables: Sequence[ParkedTable], rows: Sequence[AsideChange]) -> Iterator[str]:
    """Show one table, and its rows."""
    for one in tables:
        yield from _table(one)
    for number, row in enumerate(rows):
        yield from ([""] if number or tables else [])
        yield from _row(row)


def _table(one: ParkedTable) -> Iterator[str]:
    yield f"table       {one.source} -> {one.target}"
    yield f"reason      {one.reason}"
    if one.held_bytes:
        yield f"waiting     {one.waiting:,} row images, in {one.held_bytes:,} bytes of the trail"
    if one.resumes_after is not None:
        yield f"stands at   {one.position}"
        yield f"look        anabranch trail show JOB --from {one.resumes_after + 1} --table {one.source.typed} --limit 5"
    yield f"back by     {one.back_by or '-'}"


def _row(one: AsideChange) -> Iterator[str]:
    yield f"set aside   {one.number}, at {time_text(one.set_aside_at)}"
    yield f"change      {one.operation} in {one.source} at {one.position}, committed {time_text(one.commit_time)}"
    yield f"key         {_key(one)}"
    yield f"reason      {_reason(one)}"
    images = {title: image for title, image in {"BEFORE": one.before, "AFTER": one.after}.items() if image is not None}
    if one.unconverted:
        images["AFTER"] = {**images["AFTER"], **{name: f"({what})" for name, what in one.unconverted.items()}}
    names = list(dict.fromkeys(name for image in images.values() for name in image))
    cells = [[_value(image[name]) if name in image else "-" for image in images.values()] for name in names]
    lines = [["COLUMN", *images], *([name, *row] for name, row in zip(names, cells, strict=True))]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
