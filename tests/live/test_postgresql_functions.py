"""Functions of users that definitions call, at a real PostgreSQL and at another one: copied with all that they need, in that
order, or left out by name before anything is made; what calls them is built, or is named."""

from __future__ import annotations

import pytest

from rigs.structures import Ends, Make, ends, facts

__all__ = ["ends"]

FUNCTIONS = (
    "CREATE SCHEMA math",
    "CREATE TYPE math.mood AS ENUM ('sad', 'glad')",
    # by each other, in text and in PL/pgSQL; the caller was made first
    "SET check_function_bodies = off",
    "CREATE FUNCTION norm(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT public.low($1) || ''x'''",
    "SET check_function_bodies = on",
    "CREATE FUNCTION low(v text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS"
    " $$ DECLARE seen text := lower(v); BEGIN RETURN seen; END $$",
    "CREATE FUNCTION low(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN v - 1; END $$",  # an overload
    "CREATE FUNCTION math.twice(v int, times int DEFAULT low(3)) RETURNS int IMMUTABLE"
    " BEGIN ATOMIC SELECT v * times; END",
    "CREATE FUNCTION math.is_glad(m math.mood) RETURNS boolean IMMUTABLE LANGUAGE sql RETURN m = 'glad'::math.mood",
    "CREATE FUNCTION math.fact(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
    " $$ BEGIN RETURN CASE WHEN n < 2 THEN 1 ELSE n * math.fact(n - 1) END; END $$",
    "CREATE FUNCTION by_path(v int) RETURNS int IMMUTABLE LANGUAGE sql SET search_path = public AS 'SELECT low(v)'",
    "CREATE FUNCTION is_small(int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 < 100'",
    "CREATE DOMAIN small AS int DEFAULT math.twice(1) CHECK (is_small(VALUE))",
)
CALLERS = (
    "CREATE TABLE called (id int PRIMARY KEY, t text DEFAULT norm('Q'), m math.mood, s small,"
    " n int DEFAULT math.twice(2, 2), g text GENERATED ALWAYS AS (norm(t)) STORED,"
    " CONSTRAINT glad CHECK (math.is_glad(m)), CONSTRAINT facts CHECK (math.fact(n) > 0),"
    " CONSTRAINT apart EXCLUDE USING btree (by_path(id) WITH =))",
    "CREATE INDEX normed ON called (norm(t)) WHERE low(n) > 0",
    "CREATE TABLE parted (id int, t text) PARTITION BY LIST (low(t))",
    "CREATE TABLE parted_a PARTITION OF parted FOR VALUES IN ('a')",
)
# Function -> why it is left out
LEFT_OUT = {
    "c_lower": "it is written in internal",
    "owned": "SECURITY DEFINER",
    "astray": "it names public.low without its schema",
    "reads": "it uses public.other",
    "dynamic": "EXECUTE",
    "of_row": "it takes or gives public.other",
    "through": "it calls public.owned(integer)",
}
LEFT = (
    "CREATE TABLE other (id int PRIMARY KEY)",
    "CREATE FUNCTION low(v int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT v - 1'",
    "CREATE FUNCTION c_lower(int) RETURNS int IMMUTABLE STRICT LANGUAGE internal AS 'int4abs'",
    "CREATE FUNCTION owned(int) RETURNS int IMMUTABLE SECURITY DEFINER LANGUAGE sql AS 'SELECT $1'",
    "CREATE FUNCTION astray(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN low($1); END'",
    "CREATE FUNCTION reads(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
    " 'BEGIN RETURN (SELECT count(*) FROM public.other); END'",
    "CREATE FUNCTION dynamic(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
    " $$ DECLARE r int; BEGIN EXECUTE 'SELECT 1' INTO r; RETURN r; END $$",
    "CREATE FUNCTION of_row(int, public.other DEFAULT NULL) RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
    " 'BEGIN RETURN $1; END'",
    "CREATE FUNCTION through(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN public.owned($1); END'",
    "CREATE FUNCTION same(int, int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 = $2'",
    "CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, PROCEDURE = same)",
    "CREATE SEQUENCE numbers",
    "CREATE TABLE one (id int PRIMARY KEY, n int DEFAULT nextval('numbers'), a int, b int, CONSTRAINT alike CHECK (a === b))",
    "CREATE INDEX plain ON one (a, b)",
    "CREATE TABLE counted (id serial PRIMARY KEY, other serial)",
    "ALTER TABLE counted ALTER other SET DEFAULT nextval('numbers')",
)


def rows_of(both: Ends, query: str) -> list[tuple[object, ...]]:
    found = both.source.query(query)
    assert both.target.query(query) == found
    return found


@pytest.mark.since(14)
def test_postgresql_functions_that_definitions_call_are_copied_in_the_order_of_their_needs(ends: Make) -> None:
    both = ends(*FUNCTIONS, *CALLERS)
    verdicts = both.checks()
    assert not {key: v for key, v in verdicts.items() if v == "failed"}
    assert verdicts["target.types", "function public.norm(pg_catalog.text) will be made"] == "ok", verdicts
    both.create()
    assert both.build() == []
    functions = (
        "SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace"
        " WHERE nspname IN ('public', 'math') ORDER BY 1"
    )
    assert len(rows_of(both, functions)) == 8
    for what in ("indexes", "types", "constraints"):  # there is a partition more
        there = [row[1:] for row in facts(both.target, what)]
        assert not [row for row in facts(both.source, what) if row[1:] not in there], what
    both.target.execute("INSERT INTO called (id, t, m, s, n) VALUES (5, 'AB', 'glad', 3, 3)")
    assert both.target.query("SELECT g FROM called") == [("abx",)]
    assert not {key for key, v in both.checks().items() if v == "failed"}


@pytest.mark.since(12)
def test_postgresql_functions_that_cannot_be_copied_are_named_before_anything_is_made(ends: Make) -> None:
    calls = [f"ALTER TABLE one ADD c_{name} int DEFAULT {name}(1)" for name in LEFT_OUT]
    calls += [f"CREATE INDEX i_{name} ON one ({name}(a))" for name in LEFT_OUT if name != "of_row"]
    calls += [f"ALTER TABLE one ADD CONSTRAINT k_{name} CHECK ({name}(a) > 0)" for name in LEFT_OUT]
    calls += [
        f"ALTER TABLE one ADD g_{name} int GENERATED ALWAYS AS ({name}(b)) STORED" for name in ("owned", "astray")
    ]
    both = ends(*LEFT, *calls)
    verdicts = both.checks()
    assert not {key: v for key, v in verdicts.items() if v == "failed"}
    warned = [message for (_, message), verdict in verdicts.items() if verdict == "warning"]
    told = {name: [m for m in warned if f"public.{name}(" in m and "will not be" in m] for name in LEFT_OUT}
    for name, why in LEFT_OUT.items():
        assert any(f"check k_{name} will not be built" in m and why in m for m in told[name]), (name, warned)
        assert any(f"the default of c_{name} will not" in m for m in told[name]), (name, warned)
        assert name == "of_row" or any(f"index i_{name} will not be built" in m for m in told[name]), (name, warned)
    assert any("computed column g_owned will not be made" in m for m in told["owned"])
    assert any("check alike" in m and "operator public.===" in m for m in warned), warned
    assert any("the default of n" in m and "sequence public.numbers" in m for m in warned), warned
    assert any("the default of other" in m and m.endswith("the column counts by itself") for m in warned), warned
    assert not any("the default of id" in m for m in warned), warned
    both.create()
    both.target.execute("INSERT INTO one (id, a, b) VALUES (1, 2, 3)")
    both.build()
    constraints = {row[1] for row in facts(both.target, "constraints") if row[0] == "one"}
    assert not {name for name in constraints if name.startswith(("k_", "alike"))}, constraints
    assert "CREATE INDEX plain ON public.one USING btree (a, b)" in {row[1] for row in facts(both.target, "indexes")}
    both.target.execute("INSERT INTO one (id, a, b) VALUES (2, -2, 3)")
    steps = list(both.loader.script([(s, both.tables[t]) for t, s in sorted(both.schemas.items())]))
    assert not [step.sql for step in steps if any(f"{name}(" in step.sql for name in LEFT_OUT)]
    assert [step.note for step in steps if "SECURITY DEFINER" in step.note]


@pytest.mark.since(12)
def test_postgresql_functions_that_the_target_has_or_refuses(ends: Make) -> None:
    """What is there is used and never overwritten, another body is said; what cannot be copied may be there."""
    make = "CREATE FUNCTION {}(int) RETURNS int IMMUTABLE LANGUAGE {} AS '{}'"
    both = ends(
        make.format("same", "sql", "SELECT $1"),
        make.format("other", "sql", "SELECT $1"),
        make.format("inner_one", "internal", "int4abs"),
        make.format("clash", "sql", "SELECT $1"),
        "CREATE TABLE one (id int PRIMARY KEY, a int DEFAULT same(1), b int DEFAULT other(1), c int DEFAULT inner_one(1),"
        " CONSTRAINT there CHECK (clash(a) > 0))",
    )
    both.target.execute(
        make.format("public.same", "sql", "SELECT $1"),
        make.format("public.other", "sql", "SELECT $1 + 1"),
        make.format("public.inner_one", "internal", "int4abs"),
        "CREATE AGGREGATE public.clash(int) (SFUNC = int4pl, STYPE = int)",  # of the same name and arguments
    )
    verdicts = both.checks()
    other = "function public.other(integer) is another one at the target than at the source"
    assert verdicts["target.types", other] == "warning"
    assert not [m for _, m in verdicts if "public.same" in m or "inner_one" in m], verdicts
    assert [m for (_, m), v in verdicts.items() if "public.clash(integer)" in m and v == "warning"], verdicts
    both.create()
    problems = both.build()
    assert len(problems) == 1 and problems[0].startswith("check there of public.one could not be"), problems
    assert both.target.query("SELECT public.other(1)") == [(2,)]
    defaults = {row[2]: row[7] for row in facts(both.target, "columns") if row[0] == "one"}
    assert defaults == {"id": None, "a": "same(1)", "b": "other(1)", "c": "inner_one(1)"}
