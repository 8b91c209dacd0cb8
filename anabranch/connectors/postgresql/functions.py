"""Functions of users that definitions call: which of them another PostgreSQL can be given, with what they call themselves.

A body that is text has no dependencies in the catalogue: what it names is looked for in it. Our sessions look up no names
outside pg_catalog, as the server does where it maintains indexes, so a body has to qualify what it names, or set search_path.
https://www.postgresql.org/docs/current/catalog-pg-proc.html
What does not live here: types (needed_objects.py), what calls them (structures.py), making them (target/made_objects.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection

FIRST_OF_USERS = 16384
CARRIED = ("sql", "plpgsql")

# https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-OBJECT: identities are qualified.
# Of a body in SQL (BEGIN ATOMIC), and of defaults of parameters, the catalogue has what they use.
FUNCTIONS: LiteralString = """
SELECT p.oid::bigint, (pg_identify_object('pg_proc'::regclass, p.oid, 0)).identity, n.nspname::text, l.lanname::text,
       p.prokind::text, p.prosecdef, e.extname::text, en.nspname::text,
       CASE WHEN p.prokind IN ('f', 'p', 'w') THEN pg_get_functiondef(p.oid) ELSE '' END, coalesce(p.prosrc, ''),
       EXISTS (SELECT FROM unnest(p.proconfig) AS s (setting) WHERE s.setting LIKE 'search\\_path=%%'),
       ARRAY(SELECT t.oid::bigint
               FROM unnest(p.proargtypes::oid[] || p.prorettype || coalesce(p.proallargtypes, '{}')) AS t (oid)
              WHERE t.oid >= 16384),
       ARRAY(SELECT u.refobjid::bigint FROM pg_depend u WHERE u.classid = 'pg_proc'::regclass AND u.objid = p.oid
                AND u.refclassid = 'pg_proc'::regclass AND u.deptype = 'n' AND u.refobjid >= 16384),
       ARRAY(SELECT pg_describe_object(u.refclassid, u.refobjid, 0) FROM pg_depend u
              WHERE u.classid = 'pg_proc'::regclass AND u.objid = p.oid AND u.deptype = 'n' AND u.refobjid >= 16384
                AND u.refclassid IN ('pg_class'::regclass, 'pg_operator'::regclass)
                AND NOT EXISTS (SELECT FROM pg_depend x WHERE x.classid = u.refclassid AND x.objid = u.refobjid
                                   AND x.deptype = 'e'))
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
  LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  LEFT JOIN pg_extension e ON e.oid = d.refobjid
  LEFT JOIN pg_namespace en ON en.oid = e.extnamespace
 WHERE p.oid = ANY(%s::oid[])
"""
# Everything of users that a body may name: what it is, schema, name, number. What is also in pg_catalog is found there.
NAMES: LiteralString = """
SELECT 'function', n.nspname::text, p.proname::text, p.oid::bigint FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE p.oid >= 16384 AND n.nspname NOT IN ('pg_catalog', 'information_schema')
UNION ALL
SELECT 'relation', n.nspname::text, c.relname::text, c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname !~ '^pg_'
UNION ALL
SELECT 'type', n.nspname::text, t.typname::text, t.oid::bigint FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE t.oid >= 16384 AND t.typtype IN ('e', 'd', 'r', 'c', 'b') AND t.typelem = 0 AND n.nspname !~ '^pg_'
   AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind <> 'c')
"""
BUILT_IN: LiteralString = "SELECT DISTINCT proname::text FROM pg_proc WHERE oid < 16384"
_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)'
_NAMED = re.compile(rf"(?:({_NAME})\s*\.\s*)?({_NAME})(\s*\()?")
_BEFORE = re.compile(r"(?:\b(?:FROM|JOIN|UPDATE|INTO|TABLE|ONLY)\s+|,\s*)\Z", re.IGNORECASE)
_DYNAMIC = re.compile(r"\bEXECUTE\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Function:
    """`identity` with the types of its arguments; `types` and `calls`: what it needs, by number; `why` it cannot be had
    elsewhere, "" where it can."""

    identity: str
    schema: str
    definition: str
    types: tuple[int, ...]
    calls: tuple[int, ...]
    why: str
    extension: tuple[str, str] | None = None  # that it comes with, and the schema of that


def read_functions(connection: Connection, wanted: Iterable[int]) -> dict[int, Function]:
    """Read these functions of users, and all that they call."""
    found: dict[int, Function] = {}
    left = {oid for oid in wanted if oid >= FIRST_OF_USERS}
    names = _Names(connection) if left else None
    while left:
        assert names is not None
        rows = connection.execute(FUNCTIONS, [sorted(left)]).fetchall()
        found |= {row[0]: _function(row[1:], names) for row in rows}
        left = {oid for row in rows for oid in found[row[0]].calls} - found.keys()
    return found


def _function(row: tuple[object, ...], names: _Names) -> Function:
    identity, schema, language, kind, is_definer, extension, of, definition, body, has_path, types, calls, others = row
    if extension is not None:
        return Function(str(identity), str(schema), "", (), (), "", (str(extension), str(of)))
    assert isinstance(types, list) and isinstance(calls, list) and isinstance(others, list)
    in_body = list(names.of(str(body)))
    calls += [number for what, _, number, _ in in_body if what == "function"]
    types += [number for what, _, number, _ in in_body if what == "type"]
    uses = [*map(str, others), *sorted({name for what, name, _, _ in in_body if what == "relation"})]
    unqualified = [] if has_path else sorted({name for _, name, _, is_qualified in in_body if not is_qualified})
    why = ""
    if language not in CARRIED:
        why = f"it is written in {language}"
    elif kind != "f":
        why = "it is no plain function"
    elif is_definer:
        why = "it runs with its owner's rights (SECURITY DEFINER)"
    elif uses:
        why = f"it uses {uses[0]}"
    elif unqualified:
        why = f"it names {unqualified[0]} without its schema (qualify it, or ALTER FUNCTION {identity} SET search_path = …)"
    elif _DYNAMIC.search(_NOISE.sub(" ", str(body))):
        why = "it makes its statements while it runs (EXECUTE)"
    made = "" if why else str(definition)
    return Function(str(identity), str(schema), made, tuple(dict.fromkeys(types)), tuple(dict.fromkeys(calls)), why)


class _Names:
    """Objects that users made, by name."""

    def __init__(self, connection: Connection) -> None:
        self._known: dict[str, list[tuple[str, str, int]]] = {}
        for what, schema, name, number in connection.execute(NAMES).fetchall():
            self._known.setdefault(name, []).append((what, schema, number))
        self._built_in = {name for (name,) in connection.execute(BUILT_IN).fetchall()}

    def of(self, body: str) -> Iterator[tuple[str, str, int, bool]]:
        """List the objects that the text names: kind, name, number, and whether the text qualifies it. A name that may mean an
        object counts as one. A variable with the name of an object then leaves the function out; never is a function made
        that would not work."""
        text = _NOISE.sub(" ", body)
        for match in _NAMED.finditer(text):
            schema, name = _folded(match[1] or ""), _folded(match[2])
            for what, of, number in self._known.get(name, ()):
                if what == "function" and (not match[3] or (not schema and name in self._built_in)):
                    continue
                if what == "relation" and not (schema or _is_relation(text, match)):
                    continue
                if schema in ("", of):
                    yield what, f"{of}.{name}", number, bool(schema)


def _is_relation(text: str, match: re.Match[str]) -> bool:
    """Return whether a name stands where a table does."""
    return _BEFORE.search(text, 0, match.start()) is not None or text.startswith("%", match.end())


def _folded(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
