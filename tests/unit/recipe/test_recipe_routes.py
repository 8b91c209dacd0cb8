"""The recipe of a route: every pair of exBase's is one, others are refused with the nearest, and each check has a step."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from anabranch.cli.recipe import recipe as verb
from anabranch.errors import ConfigError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.recipe import Asked, ItemKind
from anabranch.preflight.report import Report
from anabranch.recipe.routes import Release, direction, parse, routes
from anabranch.recipe.shown import shown
from anabranch.recipe.written import Recipe, recipe, steps_by_check

CONNECTORS = Path(__file__).parents[3] / "anabranch" / "connectors"
# Files whose checks are about the server and the user, of which a recipe has a step each.
OF_SERVERS = {
    ("mysql", "source"): ("preflight_server.py", "preflight_replica.py", "preflight_room.py", "privileges.py"),
    ("mysql", "target"): ("preflight_server.py", "preflight_rights.py", "preflight_cluster.py"),
    ("postgresql", "source"): ("preflight_server.py", "preflight_publication.py", "preflight_decoder.py", "rights.py"),
    ("postgresql", "target"): ("preflight_server.py",),
    ("kafka", "target"): ("preflight.py",),
}
OF_TABLES = {"target.names", "source.settings"}  # in these files, and about tables or the job file


def written(source: str, target: str, only_exbase: bool = False, **asked: str) -> Recipe:
    whose = Asked((), **asked)  # type: ignore[arg-type]  # fields by name
    return recipe(parse(source), parse(target), whose, whose, only_exbase)


def statements(found: Recipe, role: str) -> list[str]:
    end = found.source if role == "source" else found.target
    return [item.text for step in end.steps for item in step.items if item.kind is ItemKind.STATEMENT]


def test_every_route_of_exbase_has_a_recipe() -> None:
    every = list(routes())
    assert len(every) == len(set(every)) > 100
    first = {(source, target): word for source, target, word in reversed(every)}  # some are a way back, too
    for (source, target), word in first.items():
        found = recipe(source, target, Asked(), Asked(), only_exbase=True)
        text = "\n".join(shown(found))
        assert found.exbase == word and found.source.steps and found.target.steps, (source, target)
        assert ("NOT YET" in text) is not found.runs, (source, target)
        names = [step.name for end in (found.source, found.target) for step in end.steps]
        assert len(names) == len(set(names)), names


@pytest.mark.parametrize(
    ("source", "target", "runs"),
    [
        ("mysql:8.0", "postgresql:12", True),
        ("postgresql:12", "mysql:5.7", True),
        ("mysql:8.0", "postgresql:11", False),
        ("oracle:19c", "mysql:8.0", False),
        ("vastbase-g100:2.2.10", "kafka", False),
    ],
)
def test_routes_whose_connector_comes_later_say_so(source: str, target: str, runs: bool) -> None:
    found = written(source, target)
    assert found.runs is runs
    assert (
        "comes later" in found.source.lacking + found.target.lacking or "12 and later" in found.target.lacking
    ) is not runs


def test_a_pair_outside_the_routes_is_refused_by_name_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as refused:
        written("sqlserver:2014", "postgresql:12")
    assert "exBase has no route from sqlserver:2014 to postgresql:12" in refused.value.message
    assert "sqlserver:2014 goes to vastbase-g100:2.2.5, vastbase-g100:2.2.10" in refused.value.hint
    assert "postgresql:12 comes from mysql:5.6" in refused.value.hint
    with pytest.raises(ConfigError):
        written("oracle:12c-pdb", "postgresql:12")
    for unknown in ("db3:1", "mysql", "oracle:7", "postgresql:twelve"):
        with pytest.raises(ConfigError):
            parse(unknown)


def test_a_pair_that_this_release_runs_is_refused_only_where_exbase_alone_is_asked_for() -> None:
    found = written("mysql:5.5", "postgresql:12")
    assert found.runs and not found.exbase
    with pytest.raises(ConfigError) as refused:
        written("mysql:5.5", "postgresql:12", only_exbase=True)
    assert refused.value.hint.startswith("mysql:5.5 goes to vastbase-g100:2.2.5, vastbase-g100:2.2.10; ")
    assert direction(Release("postgresql", "12"), Release("mysql", "5.5")) == "", "the way back has no 5.5"
    assert written("mariadb:10.11", "postgresql:18").runs and written("mysql:8.0", "kafka").runs
    with pytest.raises(ConfigError, match="Kafka is no source"):
        written("kafka", "mysql:8.0")


def test_rights_are_statements_for_the_named_user_and_quoted() -> None:
    found = statements(written("mysql:8.0", "postgresql:12", user="o-1"), "source")
    assert "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'o-1'@'%'" in found
    assert "GRANT SELECT ON `shop`.* TO 'o-1'@'%'" in found
    assert "GRANT CREATE, SELECT, INSERT, DELETE ON `anabranch`.* TO 'o-1'@'%'" in found
    there = statements(written("mysql:8.0", "postgresql:12", user="o-1"), "target")
    assert 'GRANT CREATE ON DATABASE "shop" TO "o-1"' in there
    early = written("mysql:5.6", "postgresql:12")
    needed = [i.text for s in early.source.steps for i in s.items if not i.is_optional]
    assert any("`anabranch`" in text for text in needed), "5.6 cannot do without its watermark"
    lines = [i.text for s in written("mysql:5.5", "postgresql:12").source.steps for i in s.items]
    assert not any("gtid_mode" in line or "binlog_row_image" in line for line in lines), "5.5 does not know them"


def test_the_verb_prints_text_and_json() -> None:
    route = ["--from", "mysql:8.0", "--to", "postgresql:12", "--user", "alice"]
    text = CliRunner().invoke(verb, route).output
    assert "-- configuration: log_bin = mysql-bin  -- [RESTART]" in text and "TO 'alice'@'%';" in text
    found = json.loads(CliRunner().invoke(verb, [*route, "--json"]).output)
    assert (found["runs"], found["exbase_route"], found["source"]["release"]) == (True, "forward", "8.0")
    items = [item for step in found["source"]["steps"] for item in step["items"]]
    assert {"text": "log_bin = mysql-bin", "kind": "setting", "needs_restart": True, "is_optional": False}.items() <= (
        items[1].items()
    )


def test_every_check_of_a_server_has_its_step() -> None:
    for (database, role), files in OF_SERVERS.items():
        steps = steps_by_check("mysql" if database == "kafka" else database, database)
        found = {check for name in files for check in checks_of(CONNECTORS / database / role / name, role)} - OF_TABLES
        assert len(found) > 3, (database, role)
        assert found - steps.keys() == set(), f"{database} {role}: a step of its recipe has to name them"


def checks_of(file: Path, role: str) -> set[str]:
    """Return the checks that a file can fail or warn by: the first words of `failed(`, `warning(` and CheckResult("…")."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            word = node.args[0]
            if isinstance(word, ast.Constant) and node.func.id in ("failed", "warning"):
                found.add(f"{role}.{word.value}")
            if isinstance(word, ast.Constant) and node.func.id == "CheckResult":
                found.add(str(word.value))
    return found


def test_findings_name_their_step_and_good_news_does_not() -> None:
    failed, ok = CheckVerdict.FAILED, CheckVerdict.OK
    results = (
        CheckResult("source.log_bin", failed, "the server writes no binary log", "set it"),
        CheckResult("source.hidden_keys", failed, "of a table", ""),
        CheckResult("job.rules", failed, "of the file", ""),
        CheckResult("target.rights", ok, "fine"),
        CheckResult("cutover.fence", failed, "of a cut-over"),
    )
    found = Report("job", results).with_steps(steps_by_check("mysql", "postgresql"))
    assert [one.step for one in found.results] == ["source.log", "source.tables", "job.file", "", ""]
    assert steps_by_check("memory", "memory") == {"job": "job.file"}
