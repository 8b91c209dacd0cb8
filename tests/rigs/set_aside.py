"""Appliers at a real PostgreSQL that set rows aside: tables, checks that refuse rows, what waits and how it is settled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from anabranch import failpoints
from anabranch.apply.aside.release import settle_wishes
from anabranch.apply.following import Following
from anabranch.apply.life.join import join_loaded
from anabranch.apply.window import WindowResolver
from anabranch.connectors.mysql.source import connector as source
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Action
from anabranch.model.table_life import resume as to_resume
from anabranch.rows.aside import RELEASE, AsideChange
from anabranch.rows.conflict import STRICT, ConflictPolicy
from anabranch.testing.databases import Database
from rigs.an_applier import TablesOf
from rigs.foreign_keys_postgresql import RULES, key, rig, table

ALONE = table("alone", "v u", unique="u")
PARENT, CHILD = table("parent", "v"), table("child", "p v", key("p", "parent", Action.RESTRICT))
CASCADED = table("child", "p v", key("p", "parent", Action.CASCADE, Action.CASCADE))
BELOW = table("below", "c", key("c", "child", Action.CASCADE))
HEAP = table("heap", "v", is_keyless=True)
CHECKS = [f"ALTER TABLE {name} ADD CONSTRAINT small CHECK (v < 100)" for name in ("alone", "parent", "child")]
Row = dict[str, Any]


def alone(number: int, v: int = 1, u: int | None = None) -> Row:
    return {"id": number, "v": v, "u": u}


def parent(number: int, v: int = 1) -> Row:
    return {"id": number, "v": v}


def child(number: int, p: int, v: int = 1) -> Row:
    return {"id": number, "p": p, "v": v}


@contextmanager
def made_at(database: Database, directory: Path) -> Iterator[Callable[..., Any]]:
    """Make appliers of these tables, each with checks that refuse rows; `aside`: how many rows it sets aside."""
    with ExitStack() as held:

        def make(*tables: Any, aside: int = 1000, **options: Any) -> Any:
            schemas = tables or (ALONE, PARENT, CHILD)
            checks = [check for check in CHECKS if check.split()[2] in [one.id.name for one in schemas]]
            found = rig(database, schemas, directory, statements=checks, aside=aside, parks=True, **options)
            held.callback(found.close)
            return found

        yield make
    failpoints.arm({})


def states(one: Any) -> dict[str, str]:
    return {
        table.name: state.state for table, state in one.applier.progress.store.tables(one.applier.progress.job).items()
    }


def reason(one: Any, name: str) -> str:
    return next(
        s.reason for t, s in one.applier.progress.store.tables(one.applier.progress.job).items() if t.name == name
    )


def waiting(one: Any) -> list[AsideChange]:
    return list(one.applier.progress.store.set_aside(one.applier.progress.job))


def aside(one: Any) -> list[tuple[str, str, int]]:
    """Table, operation and key of what waits."""
    return [(c.source.name, c.operation, int(c.key["id"] or 0)) for c in waiting(one)]


def facts(one: Any) -> dict[str, str]:
    found = one.applier.progress.store.tables(one.applier.progress.job)
    return {table.name: str(state.facts.set_aside) for table, state in found.items() if state.facts.set_aside}


def following(one: Any, policies: Callable[[Any], ConflictPolicy] = lambda _: STRICT) -> Following:
    connector = source(Endpoint("mysql", "nowhere", 1, "u", "", ""))
    targets = {followed.source: followed for followed in one.targets}
    resolver = WindowResolver(one.applier.progress.trail, connector.order)
    return Following(one.connector, RULES, TablesOf(targets, policies), one.applier.progress.settings, resolver)


def settle(one: Any, wish: str = RELEASE, *keys: int) -> None:
    """As `anabranch parked release` or `discard` asks for it, and apply does it."""
    numbers = [c.number for c in waiting(one) if not keys or int(c.key["id"] or 0) in keys]
    assert one.applier.progress.store.wish(one.applier.progress.job, numbers, wish) == len(numbers)
    settle_wishes(one.applier, following(one))


def mend(one: Any, name: str) -> None:
    one.database.execute(f"ALTER TABLE {one.where}.{name} DROP CONSTRAINT small")


def resume(one: Any) -> None:
    """As `anabranch parked resume` does."""
    for state in list(one.applier.progress.store.tables(one.applier.progress.job).values()):
        if state.state == "parked":
            joining = to_resume(state)
            one.applier.progress.store.save_table(one.applier.progress.job, joining, state)
    join_loaded(one.applier, following(one))
