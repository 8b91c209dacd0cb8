"""Clauses of ALTER TABLE about checks of a table, as values; and a table behind them.

What a check means is read from the statement and from the catalogue, which a later statement may have changed: only where both
mean the same is it certain. https://dev.mysql.com/doc/refman/8.0/en/create-table-check-constraints.html ·
https://mariadb.com/kb/en/constraint/ What does not live here: what a condition means (`conditions.py`), checks that are part of
a column's definition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from anabranch.connectors.mysql.source.column_clauses import Unknown
from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.model.check_changes import NOT_ENFORCED
from anabranch.model.schema import Check, Column, TableSchema
from anabranch.model.term import Term

OTHERWISE = "the source's catalogue has another check of this name by now, or its condition is not understood"
NOT_SHOWN = "the source's catalogue does not show it, and whether it has gone by now is not certain"
NOT_KNOWN = "the source enforces it from now on, and the job does not know a check of this name"
OF_TABLE, OF_CHECK = ("CHECK", "CONSTRAINT"), "CHECK"
USUAL = {"mysql": "{table}_chk_{number}", "mariadb": "CONSTRAINT_{number}"}  # names that the servers give


@dataclass(frozen=True)
class AddsCheck:
    """`name`: "" where the server gives one; `condition`: as the statement has it. `if_missing`: it says IF NOT EXISTS."""

    name: str
    condition: str
    enforced: bool = True
    if_missing: bool = False


@dataclass(frozen=True)
class DropsCheck:
    """`is_constraint`: DROP CONSTRAINT, which drops whatever has the name."""

    name: str
    is_constraint: bool


@dataclass(frozen=True)
class EnforcesCheck:
    name: str
    enforced: bool


CheckClause = AddsCheck | DropsCheck | EnforcesCheck


def is_about_check(clause: Sequence[Token]) -> bool:
    """Return whether a clause of ALTER TABLE makes, drops or changes a check of the table, or may do so."""
    first, second = clause[0].word, clause[1].word if len(clause) > 1 else ""
    if first == "ADD":
        return _place(clause) > 0
    return first in ("DROP", "ALTER") and second in OF_TABLE


def read(clauses: Iterable[Sequence[Token]]) -> list[CheckClause]:
    """Read those of the clauses that are about checks. Raises Unknown for one that is not read, IndexError for one that ends
    early."""
    return [_read(clause) for clause in clauses if is_about_check(clause)]


def gone_names(clauses: Iterable[Sequence[Token]]) -> tuple[str, ...]:
    """Return the names of checks that clauses drop or do not enforce any more, or may do so."""
    about = (clause for clause in clauses if clause[0].word in ("DROP", "ALTER") and is_about_check(clause))
    return tuple(name.text for clause in about for name in [*_without_if(clause[2:])][:1])


def _place(clause: Sequence[Token]) -> int:
    """Return where CHECK stands in ADD [CONSTRAINT [IF NOT EXISTS] [name]] CHECK (…); 0 in any other clause."""
    at = 1
    if len(clause) > 1 and clause[1].word == "CONSTRAINT":
        rest = list(_without_if(clause[2:]))
        at = len(clause) - len(rest)
        at += bool(rest) and (rest[0].word != OF_CHECK or _is_check(clause, at + 1))
    return at if _is_check(clause, at) else 0


def _is_check(clause: Sequence[Token], at: int) -> bool:
    return len(clause) > at + 1 and clause[at].word == OF_CHECK and clause[at + 1].text == "("


def apart(clauses: Iterable[Sequence[Token]], then: TableSchema) -> tuple[list[CheckClause], list[Sequence[Token]]]:
    """Return what clauses do to checks, also those in columns that come, and the clauses without that. Raises Unknown and
    IndexError, as `read`. DROP CONSTRAINT is about a check where the table has one of its name."""
    known, said, rest = {check.name.lower() for check in then.checks}, list[CheckClause](), list[Sequence[Token]]()
    for clause in clauses:
        one = _read(clause) if is_about_check(clause) else None
        if one is not None and (not isinstance(one, DropsCheck) or not one.is_constraint or one.name.lower() in known):
            said.append(one)
            continue
        left = list(clause)
        while clause[0].word == "ADD" and (found := _cut(left)):
            added, left = found
            said.append(added)
        rest.append(left)
    return said, rest


def _cut(clause: Sequence[Token]) -> tuple[AddsCheck, list[Token]] | None:
    """Return the first check in columns that come, and the clause without it; None where there is none."""
    at = next((place for place in range(2, len(clause)) if _is_check(clause, place)), 0)
    if not at:
        return None
    start = next((place for place in (at - 1, at - 2) if clause[place].word == "CONSTRAINT"), at)
    inside = next(n for n, token in enumerate(clause[at + 2 :]) if token.depth <= clause[at + 1].depth)
    end = at + 3 + inside
    words = [token.word for token in clause[end : end + 2]]
    end += 2 if words == ["NOT", "ENFORCED"] else int(words[:1] == ["ENFORCED"])
    as_clause = [Token("word", "ADD"), *clause[start:end]]
    depth = clause[at].depth
    as_clause = [replace(token, depth=max(token.depth - depth, 0)) for token in as_clause]
    return _added(as_clause, _place(as_clause)), [*clause[:start], *clause[end:]]


def _read(clause: Sequence[Token]) -> CheckClause:
    verb = clause[0].word
    if verb == "ADD":
        return _added(clause, _place(clause))
    rest = list(_without_if(clause[2:]))
    if rest[0].kind not in ("name", "word"):
        raise Unknown
    if verb == "DROP":
        return DropsCheck(rest[0].text, clause[1].word == "CONSTRAINT")
    return EnforcesCheck(rest[0].text, _is_enforced(rest[1:]))


def _added(clause: Sequence[Token], at: int) -> AddsCheck:
    named = list(_without_if(clause[2:at])) if at > 1 else []
    opens = clause[at + 1]
    inside = [token for token in clause[at + 2 :] if token.depth > opens.depth]
    behind = clause[at + 3 + len(inside) :]
    if named and named[0].kind not in ("name", "word"):
        raise Unknown
    is_if = any(token.word == "IF" and not token.depth for token in clause[:at])
    return AddsCheck(named[0].text if named else "", _text(inside), _is_enforced(behind), is_if)


def _is_enforced(rest: Sequence[Token]) -> bool:
    words = [token.word for token in rest]
    if words not in ([], ["ENFORCED"], ["NOT", "ENFORCED"]):
        raise Unknown
    return "NOT" not in words


def _without_if(tokens: Sequence[Token]) -> Iterator[Token]:
    at = 0
    if tokens and tokens[0].word == "IF" and len(tokens) > 1:
        at = 3 if tokens[1].word == "NOT" else 2
    yield from tokens[at:]


def _text(tokens: Sequence[Token]) -> str:
    """Return a condition as it is written, a blank for each comment; a blank keeps two signs of minus from being one."""
    said = ""
    for token in tokens:
        is_comment = said.endswith("-") and token.text == "-"
        said += (" " if token.is_apart or is_comment else "") + token.written
    return said.strip()


# --- the table behind them ----------------------------------------------------------------------------------------------


def without_gone(then: TableSchema, clauses: Iterable[CheckClause], now: TableSchema) -> TableSchema:
    """Return a table without the checks that go, and with those that are enforced, or no longer are. `now`: as the catalogue
    has it. One that is enforced, and is not known by its name, comes without a meaning. Raises Unknown where it is not certain
    what goes."""
    said, checks = list(clauses), {check.name.lower(): check for check in then.checks}
    for one in said:
        if isinstance(one, DropsCheck) and checks.pop(one.name.lower(), None) is None:
            _refuse_unknown(one, then, now)
    for one in (one for one in said if isinstance(one, EnforcesCheck)):
        if (known := checks.get(one.name.lower())) is not None:
            checks[one.name.lower()] = _enforced(known, one.enforced, now)
        elif one.enforced:
            checks[one.name.lower()] = Check(one.name, "", refusal=NOT_KNOWN)
        else:
            _refuse_unknown(one, then, now)
    return replace(then, checks=tuple(checks.values()))


def with_added(
    table: TableSchema,
    clauses: Iterable[CheckClause],
    then: TableSchema,
    now: TableSchema,
    family: str,
    waits: bool = False,
) -> TableSchema:
    """Return a table with the checks that come. `then`: as it was before the statement; `now`: as the catalogue has it. A check
    that it shows no more is left out: a later statement has dropped it. With `waits` raises Unknown where the catalogue may not
    show yet what comes; else that comes without a meaning."""
    checks = {check.name.lower(): check for check in table.checks}
    for one in clauses:
        if not isinstance(one, AddsCheck) or (one.if_missing and one.name.lower() in checks):
            continue
        if found := _made(one, checks.keys(), then, now, family):
            checks[found.name.lower()] = found
        elif _told(now) <= _told(then):
            if waits:
                raise Unknown
            late = of_statement(one, now, family, checks.keys())
            late = replace(late, term=None, refusal=NOT_SHOWN if one.enforced else NOT_ENFORCED)
            checks[late.name.lower()] = late
    return replace(table, checks=tuple(checks.values()))


def _told(table: TableSchema) -> set[tuple[str, str]]:
    return {(check.name, check.text) for check in table.checks}


def _refuse_unknown(one: DropsCheck | EnforcesCheck, then: TableSchema, now: TableSchema) -> None:
    """Raise Unknown where a check goes, or is not enforced any more, that is not known by this name, unless all that are known
    are still there."""
    others = {key.name.lower() for key in then.foreign_keys} | {index.name.lower() for index in then.indexes}
    if isinstance(one, DropsCheck) and one.is_constraint and one.name.lower() in others:
        return
    if not {check.name for check in then.checks} <= {check.name for check in now.checks}:
        raise Unknown


def _enforced(check: Check, enforced: bool, now: TableSchema) -> Check:
    if not enforced:
        return _unenforced(check)
    shown = next((one for one in now.checks if one.name.lower() == check.name.lower()), None)
    if shown is None or shown.text != check.text or shown.refusal == NOT_ENFORCED:
        raise Unknown
    return shown


def _unenforced(check: Check) -> Check:
    return replace(check, term=None, refusal=NOT_ENFORCED)


def _made(one: AddsCheck, known: Collection[str], then: TableSchema, now: TableSchema, family: str) -> Check | None:
    """Return the check that comes, None for one that the catalogue does not show any more. Without a meaning where it shows
    another one of its name. `known`: names in small letters of those that stand. What later statements have enforced, or no
    longer do, is another matter than what it asks."""
    meant = of_statement(replace(one, enforced=True), now, family)
    named = [check for check in now.checks if check.name.lower() == one.name.lower()]
    shown = named if one.name else [check for check in now.checks if check.name.lower() not in known]
    if found := next((check for check in shown if _means(meant, check, now, family)), None):
        return _read_again(found, now, family) if one.enforced else _unenforced(found)
    if not shown or one.if_missing or (not one.name and _told(now) <= _told(then)):
        return None
    if {(check.name, check.text) for check in shown} <= _told(then):
        raise Unknown  # the one of before, which the catalogue shows still
    if not one.enforced:  # where both are understood, and are not alike, it is not what may be enforced later
        is_other = meant.term is not None and _read_again(shown[0], now, family).term is not None
        return _unenforced(replace(shown[0], text=one.condition) if is_other else shown[0])
    why = shown[0].refusal if meant.term is None and shown[0].term is None else ""
    return Check(shown[0].name, shown[0].text, refusal=why or OTHERWISE)


def _means(meant: Check, shown: Check, now: TableSchema, family: str) -> bool:
    """Return whether both ask the same of rows, whether or not the catalogue's is enforced."""
    other = _read_again(shown, now, family).term
    return meant.term is not None and other is not None and _plain(meant.term) == _plain(other)


def _plain(term: Term) -> Term:
    """Return a condition without what a server may print otherwise: how AND and OR are nested, a list of one."""
    of = tuple(map(_plain, term.of))
    if term.op in ("and", "or"):
        of = tuple(inner for one in of for inner in (one.of if one.op == term.op else (one,)))
    return replace(term, op="=" if term.op == "in" and len(of) == 2 else term.op, of=of)


def _read_again(shown: Check, now: TableSchema, family: str) -> Check:
    """Return a check of the catalogue with its meaning also where it is not enforced."""
    if shown.refusal != NOT_ENFORCED:
        return shown
    from anabranch.connectors.mysql.source.conditions import READERS

    return READERS[family](shown.name, shown.text, {column.name: column for column in now.columns})


def of_statement(one: AddsCheck, table: TableSchema, family: str, known: Collection[str] = ()) -> Check:
    """Return the check as the statement alone has it. `known`: names in small letters, of which it gets none by itself."""
    name = one.name or next(
        name
        for number in count(1)
        if (name := USUAL[family].format(table=table.id.name, number=number)).lower() not in known
    )
    if not one.enforced:
        return Check(name, one.condition, refusal=NOT_ENFORCED)
    from anabranch.connectors.mysql.source.conditions import of_mariadb  # with a parser that takes its time to come

    columns: dict[str, Column] = {column.name: column for column in table.columns}
    return of_mariadb(name, one.condition, columns)
