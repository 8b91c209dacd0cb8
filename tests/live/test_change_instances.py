"""Capture instances of a table: column lists, a second one that comes while the job runs, at a real PostgreSQL and MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.errors import AnabranchError, PreflightFailed, StateError
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from rigs.change_readers import Asked, changes_between, keep_changes
from rigs.job_here import JobHere

WAYS = [
    ("mysql", "postgresql"),
    ("logical_postgresql", "mariadb"),
    pytest.param(("logical_postgresql", "mysql"), marks=pytest.mark.long),
    pytest.param(("mysql", "mysql56"), marks=pytest.mark.servers),
]
WHOLE, NARROW = '{ name = "public_item" }', '{ name = "narrow", columns = ["v", "id"] }'
REFUSED = "insufficient number of arguments"


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    with changes_between(request.param, request, source_database, tmp_path) as made:
        yield made


def _have(here: JobHere, *instances: str, more: str = "") -> None:
    """Write the job file anew, with these instances of `item`."""
    entry = f'[[tables]]\nname = "{here.made.schema}.item"\ninstances = [{", ".join(instances)}]\n'
    keep_changes(here.made, entry + more)


def _killed(here: JobHere, place: str) -> None:
    failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
    with pytest.raises(failpoints.FailpointReached):
        here.load()
    failpoints.arm({})


@pytest.mark.one_case("logical_postgresql-mariadb")
def test_a_first_start_that_was_killed_begins_with_what_the_file_says_by_then(here: JobHere) -> None:
    made, asked = here.made, Asked(here.made)
    _have(here, '{ name = "former" }', '{ name = "same" }')
    _killed(here, "changes.noted")
    _killed(here, "changes.made")
    _have(here, '{ name = "same", columns = ["v"] }', NARROW)
    _killed(here, "changes.made")
    here.load()
    made.source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    here.stream()
    assert asked.whole("same") == [(2, b"\x01", "one")] and asked.whole("narrow") == [(2, b"\x03", 1, "one")]
    called = made.target.query("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'cdc'")
    of_instances = {str(name) for (name,) in called if str(name).rsplit("_", 1)[1] in ("former", "same", "narrow")}
    named = ("all_changes_same", "all_changes_narrow", "net_changes_narrow")
    assert of_instances == {f"fn_cdc_get_{name}" for name in named}
    assert made.target.query("SHOW TABLES FROM cdc LIKE 'former%'") == []


def test_a_second_instance_has_its_columns_from_its_own_place_on(here: JobHere) -> None:
    made, source, asked = here.made, here.made.source, Asked(here.made)
    here.load()
    source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    here.stream()
    before = asked.one("fn_cdc_get_max_lsn()")
    _have(here, WHOLE, NARROW)
    if made.target.server.name != "postgresql":
        _have(here, WHOLE, '{ name = "narrow", columns = ["n", "v"] }')
        _killed(here, "changes.following")
        made.target.execute("CREATE TABLE cdc.`narrow_CT` (n INT)")  # as if it had been killed later
        _have(here, WHOLE, NARROW)
        source.execute("INSERT INTO item VALUES (8, 'eight', 8)", "DELETE FROM item WHERE id = 8")
        here.stream()
        assert asked.one("fn_cdc_get_min_lsn('narrow')") == b"\xff" * 10, "it has not begun"
        before = asked.one("fn_cdc_get_max_lsn()")
    here.load()
    here.load()  # nothing to do
    source.execute("UPDATE item SET n = 2 WHERE id = 1", "UPDATE item SET v = 'ONE', n = 3 WHERE id = 1")
    failpoints.arm({failpoints.VARIABLE: "apply.appended=raise"})
    with pytest.raises(failpoints.FailpointReached):
        here.stream()
    failpoints.arm({})
    here.stream()
    source.execute("BEGIN", "INSERT INTO item VALUES (2, 'two', 2)", "DELETE FROM item WHERE id = 1", "COMMIT")
    source.execute("UPDATE item SET n = 7 WHERE id = 2")
    here.stream()
    assert asked.one("fn_cdc_get_min_lsn('narrow')") == before, "behind it has every change"
    assert asked.whole("narrow", "all update old") == [
        (3, b"\x02", 1, "one"),
        (4, b"\x02", 1, "ONE"),
        (2, b"\x03", 2, "two"),
        (1, b"\x03", 1, "ONE"),
    ]
    assert len(asked.whole("public_item")) == (6 if made.target.server.name == "postgresql" else 8)
    assert asked.one("fn_cdc_get_column_ordinal('narrow', 'v')") == 2
    assert asked.one("fn_cdc_has_column_changed('narrow', 'v', %s)", b"\x02") == 1
    last = asked.one("fn_cdc_get_max_lsn()")
    net = asked.rows("fn_cdc_get_net_changes_narrow", before, last, "all")
    assert {(row[1], *row[3:]) for row in net} == {(1, 1, "ONE"), (2, 2, "two")}


def test_an_instance_that_the_file_names_no_more_ends_and_its_name_does_not_come_again(here: JobHere) -> None:
    source, asked = here.made.source, Asked(here.made)
    _have(here, WHOLE, '{ name = "words", columns = ["v"] }')
    here.load()
    source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    here.stream()
    assert asked.whole("words") == [(2, b"\x01", "one")]
    with pytest.raises(Exception, match=r"fn_cdc_get_net_changes_words"):  # which has no key
        asked.rows("fn_cdc_get_net_changes_words", b"", b"", "all")
    _have(here, NARROW, '{ name = "words", columns = ["v"] }')
    here.load()
    _have(here, NARROW, WHOLE)
    here.load()  # of which nothing has ended yet
    _have(here, NARROW, '{ name = "words", columns = ["v"] }')
    here.load()
    source.execute("UPDATE item SET v = 'ONE' WHERE id = 1")
    here.stream()
    assert [row[0] for row in asked.whole("narrow")] == [4] and len(asked.whole("words")) == 2
    with pytest.raises(Exception, match=REFUSED):
        asked.whole("public_item")
    begin = asked.one("fn_cdc_get_min_lsn('public_item')")
    end = bytes(
        here.made.target.query("SELECT end_lsn FROM cdc.change_tables WHERE capture_instance = 'public_item'")[0][0]
    )
    assert [row[4:] for row in asked.changes(begin, end)] == [(1, "one", 1)], "what it has stays"
    _have(here, WHOLE, NARROW)
    with pytest.raises(StateError, match="capture instance public_item has ended"):
        here.load()
    _have(here, NARROW)
    here.load()
    source.execute("ALTER TABLE item ADD w INT", "INSERT INTO item (id, v) VALUES (3, 'three')")
    here.stream()
    ends = here.made.target.query("SELECT capture_instance FROM cdc.change_tables WHERE end_lsn IS NULL ORDER BY 1")
    assert ends == [("public_scenario_mark",)], "a parked table has none that goes on"


def test_preflight_names_instances_that_cannot_be(here: JobHere) -> None:
    long = "x" * 50
    _have(here, '{ name = "narrow", columns = ["id", "nn"] }')
    with pytest.raises(PreflightFailed) as failed:
        here.load()
    found = str(failed.value) + "\n".join(map(str, here.job.preflight().results))
    assert "instance narrow" in found and "has no column nn that is replicated; did you mean n?" in found
    _have(here, WHOLE, f'{{ name = "{long}" }}')
    with pytest.raises(PreflightFailed, match=f"{long} is longer than"):
        here.load()


def test_an_instance_keeps_its_columns_and_a_later_one_has_those_of_then(here: JobHere) -> None:
    source, asked = here.made.source, Asked(here.made)
    follow = '[ddl]\nadd_column = "apply"\ndrop_column = "keep"\n'
    _have(here, WHOLE, more=follow)
    here.load()
    source.execute("INSERT INTO item VALUES (1, 'one', 1)", "ALTER TABLE item ADD w INT")
    source.execute("INSERT INTO item VALUES (2, 'two', 2, 22)", "UPDATE item SET w = 23 WHERE id = 2")
    here.stream()
    first = [(2, b"\x07", 1, "one", 1), (2, b"\x07", 2, "two", 2)]
    assert asked.whole("public_item") == first, "what changed in the new column alone is not in it"
    _have(here, WHOLE, '{ name = "later" }', more=follow)
    here.load()
    source.execute("UPDATE item SET w = 24, v = 'TWO' WHERE id = 2", "ALTER TABLE item DROP COLUMN n")
    source.execute("INSERT INTO item VALUES (3, 'three', 33)")
    here.stream()
    assert asked.whole("later") == [(4, b"\x0a", 2, "TWO", 2, 24), (2, b"\x0f", 3, "three", None, 33)]
    assert asked.whole("public_item") == [*first, (4, b"\x02", 2, "TWO", 2), (2, b"\x07", 3, "three", None)]
    source.execute("ALTER TABLE item ADD n INT", "INSERT INTO item VALUES (4, 'four', 44, 4)")
    here.stream()
    assert here.made.states()["item"] == "parked", "values of one column among those of another"
    for instance in ("later", "public_item"):
        with pytest.raises(Exception, match=REFUSED):
            asked.whole(instance)


def _readers(here: JobHere, role: str, member: str, stranger: str) -> Iterator[dict[str, str]]:
    """Make a role, and two readers, of whom one is a member of it. Yields how each connects."""
    target = here.made.target
    if target.server.name == "postgresql":
        target.execute(f"CREATE ROLE {role}", f"CREATE ROLE {member} IN ROLE {role}", f"CREATE ROLE {stranger}")
        yield from ({"options": f"-c role={one}"} for one in (member, stranger))
        return
    target.execute(f"CREATE ROLE {role}")
    for one in (member, stranger):
        target.execute(f"CREATE USER '{one}'@'%' IDENTIFIED BY 'Read-3r'")
        yield {"user": one, "password": "Read-3r"}
    to = "FOR" if target.server.name == "mariadb" else "TO"
    target.execute(f"GRANT {role} TO '{member}'@'%'", f"SET DEFAULT ROLE {role} {to} '{member}'@'%'")


@pytest.mark.every_server("roles")
def test_an_instance_with_a_role_is_for_its_members_alone(here: JobHere) -> None:
    made, asked, role = here.made, Asked(here.made), unique_name("role")
    names, is_postgresql = [unique_name("reader") for _ in range(2)], made.target.server.name == "postgresql"
    member, stranger = _readers(here, role, *names)
    _have(here, WHOLE, f'{{ name = "secret", role = "{role}" }}')
    here.load()
    made.source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    here.stream()
    if is_postgresql:
        made.target.execute(
            f"GRANT USAGE ON SCHEMA cdc TO {names[1]}",
            f"GRANT SELECT ON cdc.change_tables, cdc.lsn_time_mapping TO {names[1]}",
        )
    else:
        tables = ("cdc.change_tables", "cdc.lsn_time_mapping")
        made.target.execute(f"GRANT EXECUTE ON cdc.* TO '{names[1]}'@'%'")
        made.target.execute(*(f"GRANT SELECT ON {table} TO '{names[1]}'@'%'" for table in tables))
    first, last = asked.one("fn_cdc_get_min_lsn('secret')"), asked.one("fn_cdc_get_max_lsn()")
    rows = f"{'SELECT * FROM' if is_postgresql else 'CALL'} cdc.fn_cdc_get_all_changes_secret(%s, %s, 'all')"

    place = made.target if is_postgresql else replace(made.target, name="cdc")  # a database that readers may use

    def lowest(of: str, reader: dict[str, str]) -> bytes:
        return bytes(place.query(f"SELECT cdc.fn_cdc_get_min_lsn('{of}')", **reader)[0][0])

    try:
        assert [row[4:] for row in place.query(rows, [first, last], **member)] == [(1, "one", 1)]
        assert (lowest("secret", member), lowest("public_item", stranger)) == (first, first)
        assert lowest("secret", stranger) == bytes(10), "as of an instance that there is none of"
        with pytest.raises(Exception, match="denied"):
            place.query(rows, [first, last], **stranger)
        _have(here, WHOLE, f'{{ name = "other", role = "{role}x" }}')
        with pytest.raises(AnabranchError) as refused:
            here.load()
        assert not is_postgresql or "which is not there" in str(refused.value)
    finally:
        if not is_postgresql:
            made.target.execute(*(f"DROP USER '{name}'@'%'" for name in names), f"DROP ROLE {role}")
    if made.target.server.name == "mariadb":
        assert made.target.query("SELECT User FROM mysql.user WHERE User = %s", [f"{role}x"]) == []
