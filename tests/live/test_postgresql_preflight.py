"""Preflight of a target on a real PostgreSQL: each thing that must be refused is, and says what mends it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from anabranch.connectors.postgresql.connection import job_digest
from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.store import TABLES as STATE_TABLES
from anabranch.contracts import PreflightContext
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema
from anabranch.rows.net import TargetTable

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT, 10)
ITEMS = TableSchema(
    TableId("shop", "items"),
    (Column("id", INT, "int", nullable=False), Column("name", TEXT, "varchar(10)"), Column("n", INT, "int", False)),
    ("id",),
)
ITEM = TargetTable(ITEMS.id, TableId("public", "items"), ("id", "name", "n"), (INT, TEXT, INT), ("id",))
CONTEXT = PreflightContext("job", {"load.existing": "refuse"}, {ITEMS.id: ITEMS}, {ITEMS.id: ITEM})
GOOD = "CREATE TABLE items (id int PRIMARY KEY, name varchar(10), n int NOT NULL)"


def endpoint_of(database: Any, user: str = "", password: str = "") -> Endpoint:
    url = urlsplit(database.url)
    user, password = user or unquote(url.username or ""), password or unquote(url.password or "")
    return Endpoint("postgresql", url.hostname or "", url.port or 0, user, password, url.path[1:])


def run(endpoint: Endpoint, context: PreflightContext = CONTEXT) -> list[CheckResult]:
    checks = target(endpoint).checks()
    try:
        return checks.run(context)
    finally:
        checks.close()


def bad(results: list[CheckResult], verdict: str = "failed") -> list[tuple[str, str]]:
    return [(r.check.removeprefix("target."), r.message) for r in results if r.verdict == verdict]


@pytest.fixture
def endpoint(target_database: Any) -> Endpoint:
    return endpoint_of(target_database)


def test_postgresql_preflight_of_an_empty_database(endpoint: Endpoint) -> None:
    results = run(endpoint)
    assert not bad(results)
    assert {"target.version", "target.encoding", "target.connections"} <= {r.check for r in results}


def test_postgresql_preflight_unreachable_and_refused(endpoint: Endpoint) -> None:
    with pytest.raises(TargetUnavailable):
        run(replace(endpoint, port=1))
    with pytest.raises(TargetError, match="does not exist"):
        run(replace(endpoint, database="nowhere"))


@pytest.mark.parametrize(
    ("statement", "check", "words"),
    [
        (GOOD + "; INSERT INTO items VALUES (1, 'x', 1)", "existing", "holds rows"),
        ("CREATE VIEW items AS SELECT 1 AS id", "existing", "is a view"),
        (GOOD + "; CREATE TABLE heir () INHERITS (items)", "existing", "public.heir inherit from it"),
        ("CREATE TABLE items (id int, name varchar(10), n int) PARTITION BY RANGE (id); CREATE FOREIGN DATA WRAPPER w;"
         " CREATE SERVER nowhere FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE far PARTITION OF items DEFAULT SERVER nowhere",
         "existing", "public.far is a partition of it and a foreign table"),
        ("CREATE TABLE items (id int PRIMARY KEY, n int NOT NULL)", "columns", "column name is missing"),
        ("CREATE TABLE items (id int PRIMARY KEY, name varchar(9), n int)", "columns", "character varying(9), needed"),
        ("CREATE TABLE items (id int, name varchar(10), n int)", "key", "primary key is (), the source's is (id)"),
        ("CREATE TABLE items (id int, name varchar(10), n int, PRIMARY KEY (id, n))", "key", "(id, n)"),
        (GOOD[:-1] + ", more int NOT NULL)", "columns", "extra column more"),
        (GOOD.replace("(10)", "(10) NOT NULL"), "columns", "name is NOT NULL at the target"),
        (GOOD.replace("n int NOT NULL", "n int GENERATED ALWAYS AS (1) STORED"), "columns", "n is generated"),
        (GOOD.replace("id int", "id int GENERATED ALWAYS AS IDENTITY"), "columns", "GENERATED ALWAYS"),
        (GOOD.replace("(10)", "(10) UNIQUE"), "constraints", "unique index items_name_key"),
        (GOOD.replace("n int", "n int REFERENCES items"), "constraints", "foreign key items_n_fkey"),
        (GOOD + "; CREATE TABLE c (i int REFERENCES items)", "constraints", "foreign key c_i_fkey of public.c"),
        (GOOD + "; CREATE TRIGGER t BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
         "constraints", "trigger t"),
    ],
)  # fmt: skip
def test_postgresql_preflight_refuses(
    target_database: Any, endpoint: Endpoint, statement: str, check: str, words: str
) -> None:
    target_database.execute(*statement.split("; "))
    ((found, message), *more) = bad(run(endpoint))
    assert found == check and words in message
    assert not more or "VIEW" in statement or "FOREIGN" in statement
    assert all(r.hint for r in run(endpoint) if r.verdict == "failed")


def test_pitfall_32_postgresql_preflight_names_both_ways_out_for_a_date_that_may_not_be_null(
    target_database: Any, endpoint: Endpoint
) -> None:
    born = LogicalType(Kind.DATE)
    schema = replace(ITEMS, columns=(*ITEMS.columns, Column("born", born, "date", nullable=False)))
    table = replace(ITEM, columns=(*ITEM.columns, "born"), types=(*ITEM.types, born))
    target_database.execute(GOOD[:-1] + ", born date NOT NULL)")
    for zero_date, expected in (("null", 1), ("0001-01-01", 0)):
        choices = {**CONTEXT.user_choices, "types.zero_date": zero_date}
        found = run(endpoint, PreflightContext("job", choices, {schema.id: schema}, {schema.id: table}))
        failed = [result for result in found if result.verdict == "failed"]
        assert len(failed) == expected, failed
        for result in failed:
            assert 'zero_date = "null" writes NULL' in result.message
            assert "DROP NOT NULL" in result.hint and 'columns.zero_date = { born = "0001-01-01" }' in result.hint


def test_postgresql_preflight_hints_mend(target_database: Any, endpoint: Endpoint) -> None:
    target_database.execute(
        "CREATE TABLE items (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, name varchar(9), more int NOT NULL)"
    )
    for _ in range(2):
        for result in run(endpoint):
            if result.verdict == "failed":
                target_database.execute(result.hint)
    assert not bad(run(endpoint))


def test_postgresql_preflight_accepts_what_the_job_says(target_database: Any, endpoint: Endpoint) -> None:
    target_database.execute(GOOD.replace("(10)", "(10) UNIQUE"), "INSERT INTO items VALUES (1, 'x', 1)")
    assert {check for check, _ in bad(run(endpoint))} == {"existing", "constraints"}
    choices = {"load.existing": "empty", "load.defer_constraints": "true"}
    results = run(endpoint, replace(CONTEXT, user_choices=choices))
    assert not bad(results) and ("constraints" in dict(bad(results, "warning")))
    assert not bad(run(endpoint, replace(CONTEXT, loaded=frozenset({ITEMS.id}))))


def test_rule_08_deferrable_keys_are_named(target_database: Any, endpoint: Endpoint) -> None:
    target_database.execute(GOOD.replace("(10)", "(10) UNIQUE DEFERRABLE"))
    results = run(endpoint, replace(CONTEXT, loaded=frozenset({ITEMS.id})))
    assert dict(bad(results, "warning"))["constraints"].startswith("deferrable key items_name_key")
    target_database.execute(*(r.hint for r in results if r.verdict == "warning"))
    assert not bad(run(endpoint, replace(CONTEXT, loaded=frozenset({ITEMS.id}))), "warning")


@pytest.mark.parametrize("there", ["PRIMARY KEY (n, id)", "UNIQUE (id)"])
@pytest.mark.parametrize("key", [("id",), ()])
def test_postgresql_preflight_says_how_the_key_comes_right(
    target_database: Any, endpoint: Endpoint, there: str, key: tuple[str, ...]
) -> None:
    target_database.execute(f"CREATE TABLE items (id int NOT NULL, name varchar(10), n int NOT NULL, {there})")
    context = replace(CONTEXT, targets={ITEMS.id: replace(ITEM, key=key)}, loaded=frozenset({ITEMS.id}))
    hints = [result.hint for result in run(endpoint, context) if result.check == "target.key"]
    assert bool(hints) is not (there.startswith("UNIQUE") and not key)
    target_database.execute(*hints)
    assert not bad(run(endpoint, context))


def test_postgresql_preflight_names_triggers_that_fire_anyway(target_database: Any, endpoint: Endpoint) -> None:
    function = "suppress_redundant_updates_trigger()"
    target_database.execute(
        GOOD,
        f"CREATE TRIGGER t BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION {function}",
        "ALTER TABLE items ENABLE ALWAYS TRIGGER t",
    )
    assert bad(run(endpoint)) == [("triggers", "trigger t also fires for replicated rows")]


def test_postgresql_preflight_groups_types(endpoint: Endpoint) -> None:
    kinds = (LogicalType(Kind.JSON), LogicalType(Kind.UINT64), LogicalType(Kind.DATE))
    natives = ("json", "bigint(20) unsigned", "date")
    tables, targets = {}, {}
    for name in "abcde":
        columns = tuple(Column(f"c{i}", k, n) for i, (k, n) in enumerate(zip(kinds, natives, strict=True)))
        schema = TableSchema(TableId("shop", name), columns)
        tables[schema.id] = schema
        names = tuple(c.name for c in columns)
        targets[schema.id] = TargetTable(schema.id, TableId("public", name), names, kinds, ())
    results = run(endpoint, PreflightContext("job", {}, tables, targets))
    assert ("types", "5 columns exact") in bad(results, "ok")
    assert [len(r.names) for r in results if r.verdict == "warning"] == [5, 5]  # the message shows three
    lossy, widened = bad(results, "warning")
    assert lossy[1].startswith("json as jsonb is lossy: ") and "shop.c.c0 and 2 more" in lossy[1]
    assert widened[1].startswith("bigint unsigned as numeric(20) is widened: ")
    choices = {"types.json": "json", "types.zero_date": "null"}
    lossy, _ = bad(run(endpoint, PreflightContext("job", choices, tables, targets)), "warning")
    assert lossy[1].startswith("date as date is lossy: zero dates")


def test_postgresql_preflight_shows_chosen_types(endpoint: Endpoint, target_database: Any) -> None:
    kinds = (
        LogicalType(Kind.INT8, target="boolean"),
        LogicalType(Kind.INT8, target="boolean"),
        LogicalType(Kind.TEXT, 36, target="citext"),
        LogicalType(Kind.BINARY, 16, target="uuid"),
        LogicalType(Kind.GEOMETRY, target="geometry"),
    )
    natives = ("tinyint(1)", "tinyint(1)", "char(36)", "binary(16)", "point")
    columns = tuple(Column(f"c{i}", kind, native) for i, (kind, native) in enumerate(zip(kinds, natives, strict=True)))
    schema = TableSchema(TableId("shop", "t"), columns, ("c0", "c2"))
    names = tuple(column.name for column in columns)
    target = TargetTable(schema.id, TableId("public", "t"), names, kinds, ("c0", "c2"))
    uuid = LogicalType(Kind.TEXT, 36, target="uuid")
    for collation, told in (
        ("utf8mb4_general_ci", []),
        ("ascii_bin", ["char as uuid is refused: a key column cannot"]),
    ):
        one = TableSchema(TableId("shop", "u"), (Column("k", uuid, "char(36)", collation=collation),), ("k",))
        keyed = TargetTable(one.id, TableId("public", "u"), ("k",), (uuid,), ("k",))
        found = bad(run(endpoint, PreflightContext("job", {}, {one.id: one}, {one.id: keyed})))
        assert [message[:44] for _, message in found if "as uuid" in message and "refused" in message] == told
    context = PreflightContext("job", {"types.geometry": "geometry"}, {schema.id: schema}, {schema.id: target})
    results = run(endpoint, context)
    told = "tinyint as boolean is exact: only 0 and 1: a value that it does not hold stops the job (shop.t.c1)"
    assert ("types", told) in bad(results, "ok")
    assert [message.split(" (")[0] for _, message in bad(results)] == [
        "shop.t.c2 need the extension citext, which is not installed in this database",
        "shop.t.c4 need the extension postgis, which is not installed in this database",
        "tinyint as boolean is refused: a key column cannot become boolean: its values print or compare otherwise",
        "char as citext is refused: a key column cannot become citext: its values print or compare otherwise",
        "binary as uuid is refused: binary(16) cannot become uuid; possible: none",
    ]
    assert [r.hint for r in results if r.verdict == "failed"][:2] == [
        'CREATE EXTENSION "citext"',
        'CREATE EXTENSION "postgis"',
    ]


def test_postgresql_preflight_says_what_is_not_built(endpoint: Endpoint) -> None:
    key = ForeignKey("f", ("n",), TableId("shop", "gone"), ("id",))
    schema = replace(ITEMS, indexes=(Index("words", ("name",), kind="FULLTEXT"),), foreign_keys=(key,))
    messages = bad(run(endpoint, replace(CONTEXT, tables={ITEMS.id: schema})), "warning")
    assert messages == [
        ("indexes", "index words will not be built: it is of kind FULLTEXT"),
        ("foreign_keys", "foreign key f will not be built: its parent shop.gone is not replicated"),
    ]


def test_postgresql_preflight_says_which_keys_may_not_fit(endpoint: Endpoint) -> None:
    """The server's word for the same: such a value is refused when it comes."""
    wide = replace(TEXT, length=768)
    columns = (replace(ITEMS.columns[1], type=wide, nullable=False, character_bytes=4), *ITEMS.columns[2:])
    table = replace(ITEM, columns=("name", "n"), types=(wide, INT), key=("name",))
    there = {ITEMS.id: replace(ITEMS, columns=columns, primary_key=("name",))}
    (message,) = bad(run(endpoint, replace(CONTEXT, tables=there, targets={ITEMS.id: table})), "warning")
    assert message[0] == "key" and "may be longer than the 2704 bytes" in message[1] and "shop.items" in message[1]
    short = {ITEMS.id: replace(there[ITEMS.id], columns=(replace(columns[0], character_bytes=3), *columns[1:]))}
    assert not bad(run(endpoint, replace(CONTEXT, tables=short, targets={ITEMS.id: table})), "warning")


def test_postgresql_preflight_names(endpoint: Endpoint) -> None:
    twin = replace(ITEMS, id=TableId("old", "items"))
    long = replace(ITEMS, id=TableId("shop", "x" * 64))
    tables = {t.id: t for t in (ITEMS, twin, long)}
    targets = {
        ITEMS.id: ITEM,
        twin.id: replace(ITEM, source=twin.id),
        long.id: replace(ITEM, source=long.id, target=TableId("public", "x" * 64)),
    }
    messages = [m for _, m in bad(run(endpoint, PreflightContext("job", {}, tables, targets)))]
    assert messages == [
        f"{'x' * 64} is longer than 63 bytes",
        "shop.items, old.items would all go into public.items",
    ]


@pytest.fixture
def poor_user(target_database: Any) -> Iterator[str]:
    user = "poor_" + target_database.name[-12:]
    target_database.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'p'")
    yield user
    target_database.execute(f"DROP OWNED BY {user} CASCADE", f"DROP ROLE {user}")


def test_postgresql_preflight_rights_and_their_grants(target_database: Any, poor_user: str) -> None:
    target_database.execute("CREATE SCHEMA closed", "CREATE TABLE closed.t (id int PRIMARY KEY)")
    key = ForeignKey("f", ("n",), ITEMS.id, ("id",))
    other = TableSchema(TableId("shop", "t"), (ITEMS.columns[0],), ("id",))
    wide = replace(ITEMS, id=TableId("shop", "u"))
    tables = {ITEMS.id: replace(ITEMS, foreign_keys=(key,)), other.id: other, wide.id: wide}
    targets = {
        ITEMS.id: ITEM,
        other.id: TargetTable(other.id, TableId("closed", "t"), ("id",), (INT,), ("id",)),
        wide.id: replace(ITEM, source=wide.id, target=TableId("closed", "u")),
    }
    context = PreflightContext("job", {}, tables, targets)
    endpoint = endpoint_of(target_database, poor_user, "p")
    results = run(endpoint, context)
    messages = " · ".join(message for _, message in bad(results))
    for words in (
        "may not create schema anabranch",
        "may not create tables in schema public",
        "may not create tables in schema closed",
        "does not own closed.t",
        "may not read closed.t",
    ):
        assert words in messages
    for result in results:
        if result.verdict == "failed":
            target_database.execute(result.hint)
    results = run(endpoint, context)
    ((check, message),) = [(c, m) for c, m in bad(results, "warning") if c == "session_replication_role"]
    assert not bad(results) and "in an order that foreign keys accept" in message
    target_database.execute(*(r.hint for r in results if r.check.endswith(check)))
    assert (check, "foreign keys and triggers are off for this job's writes") in bad(run(endpoint, context), "ok")


def test_postgresql_preflight_names_state_that_others_own(target_database: Any, poor_user: str) -> None:
    """And nothing else before that: without its state the job would be told to empty what it has loaded itself."""
    store = target(endpoint_of(target_database)).store()
    store.prepare()
    store.close()
    stage = f"stage_{job_digest('job')}_1"
    target_database.execute(
        GOOD,
        "INSERT INTO items VALUES (1, 'a', 1)",
        f"ALTER TABLE items OWNER TO {poor_user}",
        f"CREATE TABLE anabranch.{stage} (id int)",
        "CREATE TABLE anabranch.stage_of_another_job (id int)",
    )
    endpoint, asked = endpoint_of(target_database, poor_user, "p"), replace(CONTEXT, loaded=frozenset([ITEMS.id]))
    found = [result for result in run(endpoint, asked) if result.verdict == "failed"]
    said = {result.message: result.hint for result in found}
    assert all(result.check in ("target.state", "target.rights") for result in found), said
    (tables,) = [message for message in said if "read and write the job's state" in message]
    assert "belong to postgres" in tables and all(f'"{name}"' in tables for name in (*STATE_TABLES, "meta", "conflict"))
    assert any(stage in message for message in said) and "another_job" not in str(said)
    target_database.execute(*said.values())
    assert not bad(run(endpoint, asked))
    poor = target(endpoint).store()
    poor.prepare()
    poor.save_job("job", {"uuid": "1"})
    poor.close()


def test_rule_07_keys_that_act_at_both_ends_are_refused(target_database: Any, poor_user: str) -> None:
    """Where the source's log has what they do there."""
    key = ForeignKey("f", ("n",), ITEMS.id, ("id",), on_delete=Action.CASCADE)
    tables = {ITEMS.id: replace(ITEMS, foreign_keys=(key,))}
    context = PreflightContext("job", {}, tables, {ITEMS.id: ITEM})
    endpoint = endpoint_of(target_database, poor_user, "p")
    assert "foreign_keys" not in dict(bad(run(endpoint, context)))
    told = replace(context, logs_cascades=True)
    assert "act at both ends" in dict(bad(run(endpoint, told)))["foreign_keys"]
    (result,) = [r for r in run(endpoint, told) if r.check == "target.foreign_keys"]
    target_database.execute(result.hint)
    assert "foreign_keys" not in dict(bad(run(endpoint, told)))


# key of the source, what stands at the target -> what is said without the right, and is it refused
KEYS_THERE = {
    "same": ("cascade", "ON DELETE CASCADE", "", False),
    "gentle": ("cascade", "DEFERRABLE", "", False),
    "strict": (
        "cascade",
        "",
        "is not ON DELETE CASCADE, as the source's is: what depends on that goes row by row",
        False,
    ),
    "harsh": ("restrict", "ON DELETE CASCADE", "", False),
    "other": ("set null", "ON DELETE CASCADE", "is ON DELETE CASCADE, the source's ON DELETE SET NULL", True),
    "own": ("", "ON DELETE SET NULL", "is ON DELETE SET NULL, and the source has no such key", True),
    "alone": ("", "", "has no counterpart at the source: a row without a parent stops the job", False),
}


AGING = {
    "sets": "NEW.n := 1",
    "asks": "IF current_setting(''application_name'') NOT LIKE ''anabranch%'' THEN NEW.n := 1; END IF",
    "minds": "NEW.name := upper(NEW.name)",
}


def test_rule_23_a_trigger_that_makes_rows_newer_is_refused_in_a_pair(target_database: Any, poor_user: str) -> None:
    """Only one that fires, sets the column by which the newest row is told, and does not ask whose session it is."""
    target_database.execute(GOOD, f"ALTER TABLE items OWNER TO {poor_user}")
    for name, what in AGING.items():
        target_database.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {what}; RETURN NEW; END'",
            f"CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON items FOR EACH ROW EXECUTE FUNCTION {name}()",
        )
    endpoint = endpoint_of(target_database, poor_user, "p")

    def refused(context: PreflightContext) -> list[CheckResult]:
        return [one for one in run(endpoint, context) if one.verdict == "failed" and one.check == "target.triggers"]

    assert not refused(CONTEXT)
    in_pair = replace(CONTEXT, told_by={ITEMS.id: "n"})
    (found,) = refused(in_pair)
    assert found.message == "trigger sets fires for rows of the other site and sets n, by which the newest row is told"
    target_database.execute(found.hint)
    assert not refused(in_pair)


def test_rule_07_pitfall_41_what_acts_without_the_right_is_named(target_database: Any, poor_user: str) -> None:
    """What would lose rows, or hide them, is refused; hints mend it. With the right nothing of it matters but rules and
    row security."""
    parent = replace(ITEMS, id=TableId("shop", "p"))
    tables, targets = {parent.id: parent}, {parent.id: replace(ITEM, source=parent.id, target=TableId("public", "p"))}
    target_database.execute(GOOD.replace("items", "p"), f"GRANT CREATE ON SCHEMA public TO {poor_user}")
    target_database.execute(f"GRANT CREATE ON DATABASE {target_database.name} TO {poor_user}")
    for name, (on_delete, clause, _, _) in KEYS_THERE.items():
        target_database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, name varchar(10), n int REFERENCES p {clause})"
        )
        keys = (ForeignKey("f", ("n",), parent.id, ("id",), Action(on_delete)),) if on_delete else ()
        schema = replace(ITEMS, id=TableId("shop", name), foreign_keys=keys)
        tables[schema.id] = schema
        targets[schema.id] = replace(ITEM, source=schema.id, target=TableId("public", name))
    target_database.execute(
        *(f"ALTER TABLE {name} OWNER TO {poor_user}" for name in ("p", *KEYS_THERE)),
        "CREATE TRIGGER t BEFORE UPDATE ON same FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE RULE quiet AS ON DELETE TO own DO INSTEAD NOTHING",
        "ALTER TABLE own ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE own FORCE ROW LEVEL SECURITY",
    )
    endpoint = endpoint_of(target_database, poor_user, "p")
    context = PreflightContext("job", {"load.defer_constraints": "true"}, tables, targets)
    results = run(endpoint, context)
    said = {r.message for r in results if r.check == "target.foreign_keys"}
    wanted = {(name, told, refused) for name, (_, _, told, refused) in KEYS_THERE.items() if told}
    for name, told, refused in wanted:
        (one,) = [
            r
            for r in results
            if r.check == "target.foreign_keys" and f"{name}_n_fkey of public.{name} {told}" in r.message
        ]
        assert one.verdict == ("failed" if refused else "warning")
    assert len(said) == len(wanted)
    (way,) = [r for r in results if r.check == "target.session_replication_role"]
    assert way.verdict == "warning" and "triggers fire: t on public.same (UPDATE)" in way.message
    assert dict(bad(results))["rules"].startswith("rule quiet rewrites DELETE")
    assert dict(bad(results))["row_security"].startswith("row security of public.own hides rows")
    for result in results:
        if result.verdict == "failed":
            target_database.execute(result.hint)
    results = run(endpoint, context)
    assert not bad(results)
    target_database.execute(way.hint)
    assert not [r for r in run(endpoint, context) if r.check == "target.foreign_keys"]
