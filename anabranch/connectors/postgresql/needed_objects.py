"""Objects that tables need: types of users, collations, extensions. Read alike at the source and at the target, so that
the two are compared by their texts.

https://www.postgresql.org/docs/current/catalog-pg-type.html What does not live here: which tables need what
(structures.py), what preflight says of it (preflight_extensions.py), making what is missing (target/made_objects.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.functions import FIRST_OF_USERS, Function, read_functions
from anabranch.connectors.postgresql.quoting import quote
from anabranch.model.schema import Need

EXTENSION, COLLATION, ENUM, FUNCTION = "extension", "collation", "enum", "function"
KINDS = {"e": ENUM, "d": "domain", "c": "composite", "r": "range"}

# `uses`: types that it is made of; of an array its elements, which bring it.
TYPES: LiteralString = """
SELECT t.oid::bigint, t.typtype::text, quote_ident(n.nspname) || '.' || quote_ident(t.typname), n.nspname::text,
       e.extname::text, en.nspname::text,
       CASE t.typtype
         WHEN 'b' THEN ARRAY[t.typelem::bigint]
         WHEN 'd' THEN ARRAY[t.typbasetype::bigint]
         WHEN 'c' THEN ARRAY(SELECT a.atttypid::bigint FROM pg_attribute a
                              WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
         WHEN 'r' THEN ARRAY(SELECT r.rngsubtype::bigint FROM pg_range r WHERE r.rngtypid = t.oid)
         WHEN 'm' THEN ARRAY(SELECT (to_jsonb(r) ->> 'rngtypid')::bigint FROM pg_range r
                              WHERE (to_jsonb(r) ->> 'rngmultitypid')::oid = t.oid)
       END AS uses,
       t.typtype = 'b' AND t.typelem <> 0 AND t.typlen = -1 OR t.typtype = 'm' AS is_brought,
       CASE t.typtype
         WHEN 'e' THEN (SELECT 'ENUM (' || coalesce(string_agg(quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder), '')
                          || ')' FROM pg_enum l WHERE l.enumtypid = t.oid)
         WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod)
           || coalesce((SELECT ' COLLATE ' || quote_ident(cn.nspname) || '.' || quote_ident(c.collname)
                          FROM pg_collation c JOIN pg_namespace cn ON cn.oid = c.collnamespace
                          JOIN pg_type b ON b.oid = t.typbasetype
                         WHERE c.oid = t.typcollation AND c.oid <> b.typcollation), '')
           || coalesce(' DEFAULT ' || pg_get_expr(t.typdefaultbin, 0), '')
           || CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END
         WHEN 'c' THEN (SELECT '(' || string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod)
                               || coalesce((SELECT ' COLLATE ' || quote_ident(cn.nspname) || '.' || quote_ident(c.collname)
                                              FROM pg_collation c JOIN pg_namespace cn ON cn.oid = c.collnamespace
                                              JOIN pg_type b ON b.oid = a.atttypid
                                             WHERE c.oid = a.attcollation AND c.oid <> b.typcollation), ''),
                                 ', ' ORDER BY a.attnum) || ')'
                          FROM pg_attribute a JOIN pg_class k ON k.oid = a.attrelid AND k.relkind = 'c'
                         WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
         WHEN 'r' THEN (SELECT 'RANGE (SUBTYPE = ' || format_type(r.rngsubtype, NULL)
                          || CASE WHEN o.opcdefault THEN ''
                               ELSE ', SUBTYPE_OPCLASS = ' || quote_ident(ons.nspname) || '.' || quote_ident(o.opcname) END
                          || coalesce((SELECT ', COLLATION = ' || quote_ident(cn.nspname) || '.' || quote_ident(c.collname)
                                         FROM pg_collation c JOIN pg_namespace cn ON cn.oid = c.collnamespace
                                         JOIN pg_type b ON b.oid = r.rngsubtype
                                        WHERE c.oid = r.rngcollation AND c.oid <> b.typcollation), '')
                          || CASE WHEN r.rngsubdiff = 0 THEN '' ELSE ', SUBTYPE_DIFF = ' || r.rngsubdiff::text END
                          || coalesce((SELECT ', MULTIRANGE_TYPE_NAME = ' || quote_ident(mn.nspname) || '.'
                                              || quote_ident(m.typname)
                                         FROM pg_type m JOIN pg_namespace mn ON mn.oid = m.typnamespace
                                        WHERE m.oid = (to_jsonb(r) ->> 'rngmultitypid')::oid), '') || ')'
                          FROM pg_range r JOIN pg_opclass o ON o.oid = r.rngsubopc
                          JOIN pg_namespace ons ON ons.oid = o.opcnamespace
                         WHERE r.rngtypid = t.oid AND r.rngcanonical = 0)
       END,
       ARRAY(SELECT quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid) FROM pg_constraint k
              WHERE k.contypid = t.oid AND k.contype = 'c' ORDER BY k.conname),
       ARRAY(SELECT u.refobjid::bigint FROM pg_depend u
              WHERE u.refclassid = 'pg_proc'::regclass AND u.refobjid >= 16384 AND t.typtype IN ('d', 'r')
                AND (u.classid = 'pg_type'::regclass AND u.objid = t.oid
                     OR u.classid = 'pg_constraint'::regclass
                        AND u.objid IN (SELECT k.oid FROM pg_constraint k WHERE k.contypid = t.oid))) AS calls,
       coalesce(e.extversion, (SELECT string_agg(l.oid || '=' || quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder)
                                 FROM pg_enum l WHERE l.enumtypid = t.oid))
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_depend d ON d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
  LEFT JOIN pg_extension e ON e.oid = d.refobjid
  LEFT JOIN pg_namespace en ON en.oid = e.extnamespace
 WHERE t.oid = ANY(%s::oid[])
"""
# https://www.postgresql.org/docs/current/catalog-pg-collation.html: the column of an ICU locale has had three names.
COLLATIONS: LiteralString = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.collname), n.nspname::text,
       'PROVIDER = ' || CASE c.collprovider WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END
       || CASE WHEN c.collprovider = 'c'
            THEN ', LC_COLLATE = ' || quote_literal(c.collcollate) || ', LC_CTYPE = ' || quote_literal(c.collctype)
            ELSE ', LOCALE = ' || quote_literal(coalesce(to_jsonb(c) ->> 'colllocale', to_jsonb(c) ->> 'colliculocale',
                                                         to_jsonb(c) ->> 'collcollate')) END
       || coalesce(', RULES = ' || quote_literal(to_jsonb(c) ->> 'collicurules'), '')
       || CASE WHEN to_jsonb(c) ->> 'collisdeterministic' = 'false' THEN ', DETERMINISTIC = false' ELSE '' END
  FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
 WHERE c.oid >= 16384 AND quote_ident(n.nspname) || '.' || quote_ident(c.collname) = ANY(%s)
"""
EXTENSIONS: LiteralString = "SELECT extname::text FROM pg_extension WHERE extname = ANY(%s)"
NUMBERS: LiteralString = """
SELECT w.name, to_regtype(w.name)::oid::bigint FROM unnest(%s::text[]) AS w (name) WHERE to_regtype(w.name) IS NOT NULL
"""
BODIES: LiteralString = """
SELECT f.identity, CASE WHEN f.kind = 'f' THEN pg_get_functiondef(f.oid) ELSE '' END
  FROM (SELECT p.oid, p.prokind AS kind, (pg_identify_object('pg_proc'::regclass, p.oid, 0)).identity FROM pg_proc p
         WHERE p.oid >= 16384) AS f
 WHERE f.identity = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of users': `uses` are those that it is made of; `is_brought` by them, it is not made by itself. `state`: what it
    is now, beside what makes it: an extension's version, an enum's labels with the numbers that they keep when renamed."""

    need: Need
    uses: tuple[int, ...]
    is_brought: bool
    state: str
    calls: tuple[int, ...]  # functions of users, in checks and defaults of a domain


@dataclass(frozen=True, slots=True)
class Objects:
    """Types and functions of users by number, with all that they are made of and call."""

    types: dict[int, Type]
    functions: dict[int, Function]


def read_types(connection: Connection, wanted: Iterable[int]) -> dict[int, Type]:
    """Read these types of users, and all that they are made of."""
    found: dict[int, Type] = {}
    left = {oid for oid in wanted if oid >= FIRST_OF_USERS}
    while left:
        rows = connection.execute(TYPES, [sorted(left)]).fetchall()
        found |= {row[0]: _type(*row[1:]) for row in rows}
        left = {oid for row in rows for oid in found[row[0]].uses if oid >= FIRST_OF_USERS} - found.keys()
    return found


def _type(
    letter: str,
    name: str,
    schema: str,
    extension: str | None,
    extension_schema: str,
    uses: list[int] | None,
    is_brought: bool,
    body: str | None,
    checks: list[str],
    calls: list[int],
    state: str | None,
) -> Type:
    if extension is not None:
        return Type(extension_need(extension, extension_schema), (), False, state or "", ())
    kind = KINDS.get(letter, "type")
    definition = _definition(kind, name, body, checks)
    return Type(Need(kind, name, schema, definition), tuple(uses or ()), is_brought, state or definition, tuple(calls))


def _definition(kind: str, name: str, body: str | None, checks: list[str]) -> str:
    if body is None:
        return ""
    if kind != "domain":
        return f"CREATE TYPE {name} AS {body}"
    whole = [f"CONSTRAINT {check}" for check in checks if not check.endswith(" NOT VALID")]
    later = [f"ALTER DOMAIN {name} ADD CONSTRAINT {check}" for check in checks if check.endswith(" NOT VALID")]
    return ";\n".join([" ".join([f"CREATE DOMAIN {name} AS {body}", *whole]), *later])


def labels(definition: str) -> list[str]:
    """Return labels of an enum, quoted as SQL."""
    return re.findall(r"E?'(?:[^']|'')*'", definition.partition(" AS ENUM ")[2])


def extension_need(name: str, schema: str) -> Need:
    definition = f"CREATE EXTENSION IF NOT EXISTS {quote(name)} SCHEMA {quote(schema)} CASCADE"
    return Need(EXTENSION, name, schema, definition)


def read_objects(connection: Connection, types: Iterable[int], functions: Iterable[int]) -> Objects:
    """Read these types and functions, and all that they are made of and call."""
    wanted, called = set(types), set(functions)
    while True:
        found = read_types(connection, wanted)
        called |= {one for type_ in found.values() for one in type_.calls}
        made = read_functions(connection, called)
        more = {one for function in made.values() for one in function.types}
        if more <= found.keys():
            return _settled(Objects(found, made))
        wanted |= more


def _settled(objects: Objects) -> Objects:
    """Leave out whatever is made of something that cannot be had."""
    types, functions = dict(objects.types), dict(objects.functions)
    while True:
        lost = {
            oid: replace(one, definition="", why=f"it takes or gives {types[type_].need.name}")
            for oid, one in functions.items()
            for type_ in one.types
            if not one.why and not one.extension and type_ in types and _is_lost(types, type_)
        }
        lost |= {
            oid: replace(one, definition="", why=f"it calls {functions[called].identity}, and {functions[called].why}")
            for oid, one in functions.items()
            for called in one.calls
            if not one.why and oid not in lost and called in functions and functions[called].why
        }
        gone = {
            oid: replace(one, need=replace(one.need, definition=""))
            for oid, one in types.items()
            if one.need.definition and any(functions[called].why for called in one.calls if called in functions)
        }
        if not lost and not gone:
            return Objects(types, functions)
        functions |= lost
        types |= gone


def _is_lost(types: Mapping[int, Type], oid: int) -> bool:
    one = types[oid]
    is_here = one.is_brought or one.need.definition
    return not is_here or any(_is_lost(types, part) for part in one.uses if part in types)


def in_order(objects: Objects, types: Iterable[int], functions: Iterable[int]) -> Iterator[Need]:
    """List the objects that these need, each behind those it is made of; functions that cannot be had are left out."""
    done = set[tuple[str, int]]()

    def of_type(oid: int) -> Iterator[Need]:
        if oid in objects.types and ("type", oid) not in done:
            done.add(("type", oid))
            one = objects.types[oid]
            for part in one.uses:
                yield from of_type(part)
            for called in one.calls:
                yield from of_function(called)
            if not one.is_brought:
                yield one.need

    def of_function(oid: int) -> Iterator[Need]:
        if oid in objects.functions and ("function", oid) not in done:
            done.add(("function", oid))
            one = objects.functions[oid]
            if one.extension is not None:
                yield extension_need(*one.extension)
            elif not one.why:
                for part in one.types:
                    yield from of_type(part)
                for called in one.calls:
                    yield from of_function(called)
                yield Need(FUNCTION, one.identity, one.schema, one.definition)

    for oid in types:
        yield from of_type(oid)
    for oid in functions:
        yield from of_function(oid)


def states_of(types: Mapping[int, Type], wanted: Iterable[int]) -> dict[str, str]:
    """Return `kind name` -> state, of these types and of all that they are made of."""
    left, found = [oid for oid in wanted if oid in types], dict[int, Type]()
    while left:
        oid = left.pop()
        if oid not in found:
            found[oid] = types[oid]
            left += [one for one in types[oid].uses if one in types]
    made = sorted((one for one in found.values() if not one.is_brought), key=lambda one: (one.need.kind, one.need.name))
    return {f"{one.need.kind} {one.need.name}": one.state for one in made}


def read_collations(connection: Connection, names: Iterable[str]) -> dict[str, Need]:
    """Read the collations, of these, that users made."""
    rows = connection.execute(COLLATIONS, [sorted(names)]).fetchall()
    return {
        name: Need(COLLATION, name, schema, f"CREATE COLLATION {name} ({options})") for name, schema, options in rows
    }


# --- at the target ----------------------------------------------------------------------------------------------------


def present(connection: Connection, needs: Iterable[Need]) -> dict[Need, str]:
    """Ask how this server would have made what is there already."""
    needs = list(dict.fromkeys(needs))
    asked = [need.name for need in needs if need.kind not in (EXTENSION, COLLATION, FUNCTION)]
    numbers: dict[str, int] = dict(connection.execute(NUMBERS, [asked]).fetchall())
    types = read_types(connection, numbers.values())
    collations = read_collations(connection, [n.name for n in needs if n.kind == COLLATION])
    extensions = {name for (name,) in connection.execute(EXTENSIONS, [[n.name for n in needs if n.kind == EXTENSION]])}
    of_users = {name: types[oid] for name, oid in numbers.items() if oid in types}
    found = {need: of_users[need.name].need.definition for need in needs if need.name in of_users}
    found |= {need: collations[need.name].definition for need in needs if need.name in collations}
    if functions := [need.name for need in needs if need.kind == FUNCTION]:
        bodies: dict[str, str] = dict(connection.execute(BODIES, [functions]).fetchall())
        found |= {need: bodies[need.name] for need in needs if need.kind == FUNCTION and need.name in bodies}
    return found | {need: need.definition for need in needs if need.kind == EXTENSION and need.name in extensions}
