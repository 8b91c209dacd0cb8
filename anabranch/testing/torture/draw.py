"""Histories drawn by seed: which transactions, in which sessions, in which phase.

What lives here: the frame. What the transactions do is in events.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from anabranch.testing.databases import Database
from anabranch.testing.torture.altering import draw_altering, with_altered
from anabranch.testing.torture.bare import with_bare_truncates
from anabranch.testing.torture.computed import with_computed
from anabranch.testing.torture.draft import Draft
from anabranch.testing.torture.growing import draw_growing, joined, with_added
from anabranch.testing.torture.heirs import with_heirs
from anabranch.testing.torture.history import History, Statement, Transaction
from anabranch.testing.torture.labels import with_labels
from anabranch.testing.torture.passing import draw_drops, draw_passing, with_passing
from anabranch.testing.torture.postgresql_tables import is_late_unique
from anabranch.testing.torture.schemas import draw_schema, known_kinds, with_one_apart, with_one_way, without_actions
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.tables import Schema
from anabranch.testing.torture.targets import empties_apart, family_at
from anabranch.testing.torture.values import Version

IMAGES = ("", "", "", "", "MINIMAL", "NOBLOB")
FILLED = 12  # rows that a table has at first, about
DURING, AFTER = (10, 24), (20, 34)  # transactions of a phase


def draw_history(
    seed: int,
    family: str,
    version: Version,
    *,
    unchecked: bool = True,
    apart: bool = False,
    decoder: str = "",
    target: Database | None = None,
    grows: bool = False,
    passes: bool = False,
) -> History:
    """The same one for the same seed and server. `unchecked`: some transactions turn their foreign keys off, and rows may
    move by two keys at once, which a target that enforces its own may have to refuse (K1). Without it, where the log has what
    keys do, they do nothing: the target's would do it as well. `apart`: there is a table without foreign keys, to which
    somebody else may write at the target, and images are full, as a row needs that is written anew. `decoder`: of the source's
    log, "" for the usual one. `target`: what is drawn is what it can hold; None: a PostgreSQL. `grows`: columns are added.
    `passes`: tables are made, renamed and dropped, where the source is a MySQL or MariaDB."""
    r = random.Random(f"history {seed}")
    schema = draw_schema(r, family, version, decoder, target)
    schema = schema if unchecked else (with_one_way if source_family(family).hides_actions else without_actions)(schema)
    schema = with_one_apart(schema) if apart else schema
    is_whole = target is not None and family_at(target).keeps_changes  # whole rows alone, and what no log hides
    schema = without_actions(schema) if is_whole else schema
    if is_whole and source_family(family).hides_actions:
        grows = passes = False
    elif source_family(family).hides_actions:
        schema = with_computed(schema, seed)
        if grows:
            known = known_kinds(family, version, decoder, target)
            schema = with_added(with_altered(schema, seed, known), seed, known)
        if passes:
            schema = with_passing(schema, seed, known_kinds(family, version, decoder, target))
    else:
        schema = with_heirs(with_labels(schema, seed), seed, decoder)
        grows = grows and not decoder  # others than the usual one do not tell types
        known = known_kinds(family, version, decoder, target)
        schema = with_added(schema, seed, known, is_postgresql=True) if grows else schema
    sessions = r.randint(2, 4)
    unchecked = unchecked and not _leaves_equal_values(schema, family, target)
    empties = not (target is not None and family_at(target).form)
    draft = Draft(r, schema, family, is_big=r.random() < 0.03, unchecked=unchecked, empties=empties)
    before = _filling(draft)
    during = [_transaction(draft, sessions, 30) for _ in range(r.randint(*DURING))]
    after = _streamed(draft, sessions, seed)
    if draft.is_big:
        after[r.randrange(len(after))] = _big(draft, sessions)
    _hold_back(r, during)
    _hold_back(r, after)
    images = _images(draft, sessions, apart or is_whole) if draft.family.has_images else ()
    drops = draw_drops(seed) if len(schema.steady) < len(schema.tables) else ""
    history = _numbered(History(seed, schema, tuple(before), tuple(during), tuple(after), images, decoder, drops))
    is_emptied = not draft.family.commits_truncates and not decoder and target is not None and empties_apart(target)
    is_emptied = is_emptied and empties
    return with_bare_truncates(history) if is_emptied else history


def _streamed(draft: Draft, sessions: int, seed: int) -> list[Transaction]:
    found, number = list[Transaction](), draft.r.randint(*AFTER)
    growing = draw_growing(draft.model.schema, seed, number, sessions)
    altering = draw_altering(draft.model.schema, seed, number, sessions)
    passing = draw_passing(draft.model.schema, seed, number, sessions)
    for place in range(number):
        for alone in growing.get(place, ()):
            draft.grow(alone.statements[0])
            found.append(alone)
        for alone in altering.get(place, ()):
            draft.alter(alone.statements[0])
            found.append(alone)
        for alone in passing.get(place, ()):
            found += _passed(draft, alone)
        found.append(_transaction(draft, sessions, 4))
    return found if draft.family.commits_truncates else joined(found, seed)


def _passed(draft: Draft, alone: Transaction) -> list[Transaction]:
    """A table is made, renamed or dropped; one that is there gets rows before and behind, in the same session."""
    (statement,) = alone.statements
    before = () if statement.do == "make" else _two_rows(draft, statement.table, alone.session)
    draft.pass_by(statement)
    name = {"make": statement.table, "rename": statement.name}.get(statement.do, "")
    return [*before, alone, *(_two_rows(draft, name, alone.session) if name else ())]


def _two_rows(draft: Draft, table: str, session: int) -> list[Transaction]:
    statements = tuple(draft.filling(draft.schema[table], 2))
    draft.settle()
    return [Transaction(0, session, statements)] if statements else []


def _leaves_equal_values(schema: Schema, family: str, target: Database | None) -> bool:
    """Return whether the source may leave rows that no target takes which asks unique keys of each row: a PostgreSQL asks those
    that are checked late by triggers, and a session without foreign keys has none.
    https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SESSION-REPLICATION-ROLE"""
    if source_family(family).hides_actions or target is None or target.server.name == "postgresql":
        return False
    return any(is_late_unique(table, unique) for table in schema.tables for unique in table.uniques)


def _images(draft: Draft, sessions: int, apart: bool) -> tuple[str, ...]:
    r, tables = draft.r, (*draft.schema.tables, *(table for table in draft.model.schema.tables if table.life))
    images = ("MINIMAL",) * sessions if r.random() < 0.1 else tuple(r.choice(IMAGES) for _ in range(sessions))
    # What MariaDB computes and leaves out of a partial image nobody knows: the product parks the table.
    untold = draft.family.name == "mariadb" and any(len(table.given) < len(table.columns) for table in tables)
    if apart or untold or any(table.has_stand_in or table.has_untold_default for table in tables):
        return ("",) * sessions  # such tables are refused with partial images, or parked
    return images


def _filling(draft: Draft) -> list[Transaction]:
    """Rows for every table, parents first where there is an order."""
    statements = [s for table in draft.schema.tables for s in draft.filling(table, draft.r.randint(3, FILLED))]
    return [Transaction(0, 0, tuple(statements))]


def _transaction(draft: Draft, sessions: int, pause: int) -> Transaction:
    r = draft.r
    session, wait = r.randrange(sessions), r.randint(0, pause)
    may = draft.family.commits_truncates and draft.empties
    if may and r.random() < 0.03 and (table := draft.truncatable()) and r.random() < 0.7:
        draft.take(Statement("truncate", table))
        draft.settle()
        return Transaction(0, session, (Statement("truncate", table),), pause=wait)
    commits, draft.checks = r.random() > 0.08, r.random() > 0.02 or not draft.unchecked
    mark = draft.mark()
    statements: list[Statement] = []
    for _ in range(r.choice((0, 1, 1, 1, 2, 2, 3, 4)) or (r.random() < 0.7)):
        statements += _event(draft)
    draft.settle() if commits else draft.back_to(mark)
    return Transaction(0, session, tuple(statements), commits, wait, checks=draft.checks)


def _event(draft: Draft) -> list[Statement]:
    """An event, sometimes between a savepoint and the way back to it."""
    events, weights = zip(*draft.events.items(), strict=True)
    event = draft.r.choices(events, weights)[0]
    if draft.r.random() > 0.06:
        return list(event(draft))
    name, mark = f"s{draft.r.randrange(3)}", draft.mark()
    inside = list(event(draft))
    draft.back_to(mark)
    return [Statement("savepoint", name=name), *inside, Statement("back", name=name)]


def _big(draft: Draft, sessions: int) -> Transaction:
    """Two thousand rows at once, most of them changed and some removed again."""
    statements = tuple(draft.crowd(2000))
    draft.settle()
    return Transaction(0, draft.r.randrange(sessions), statements)


def _hold_back(r: random.Random, phase: list[Transaction]) -> None:
    """Some transactions end only after later ones of other sessions; the first of a phase behind as many as can be."""
    for place, transaction in enumerate(phase):
        if transaction.alone or (place and r.random() > 0.1):
            continue
        later = [i for i, t in enumerate(phase) if i > place and t.session != transaction.session]
        if later:
            behind = max(later[:6]) if not place else later[0]
            phase[place] = replace(transaction, behind=-behind)  # a place, a number in _numbered


def _numbered(history: History) -> History:
    """Numbers from 1 on, through all phases."""
    firsts = (1, 1 + len(history.before), 1 + len(history.before) + len(history.during))
    phases = [
        tuple(replace(t, number=first + i, behind=first - t.behind if t.behind else 0) for i, t in enumerate(phase))
        for first, phase in zip(firsts, (history.before, history.during, history.after), strict=True)
    ]
    return replace(history, before=phases[0], during=phases[1], after=phases[2])
