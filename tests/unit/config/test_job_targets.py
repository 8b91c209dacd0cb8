"""[target] and [[targets]]: what may stand together, and what a job with several is as each of them sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import JobConfig, load_job
from anabranch.errors import ConfigError
from anabranch.job import Job

HEAD = 'name = "shop"\n[source]\nurl = "memory:///s"\n'
RULES = '[[rules]]\ninclude = ["shop.*"]\n'
ONE = '[target]\nurl = "memory:///one"\n'


def named(name: str, url: str = "") -> str:
    return f'[[targets]]\nname = "{name}"\nurl = "{url or f"memory:///{name}"}"\n'


def config(tmp_path: Path, text: str) -> JobConfig:
    file = tmp_path / "job.toml"
    file.write_text(HEAD + text + RULES)
    return load_job(file, {"ANABRANCH_HOME": str(tmp_path)})


def job(tmp_path: Path, text: str) -> Job:
    return Job(config(tmp_path, text), tmp_path / "job.toml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["[target]: is missing; expected a section [target]"]),
        (
            named("north") + named("north"),
            ["line 8, [[targets]] name: 'north' is there already; expected a name of its own"],
        ),
        (
            ONE + named("target"),
            ["line 7, [[targets]] name: 'target' is the name of [target]; expected another name"],
        ),
        (
            named("North"),
            [
                "line 5, [[targets]] name: 'North' cannot be a target's name; expected 1 to 31 small letters, digits,"
                " '_' or '-', beginning with a letter (it names a directory)"
            ],
        ),
        (
            named("north", "postgresql://a:b@localhost/x") + named("south", "postgresql://c:d@127.0.0.1:5432/x"),
            ["line 9, [[targets]] url: south is the database of north; expected a database for each target"],
        ),
        (
            ONE + named("south", "memory:///one"),
            ["line 8, [[targets]] url: south is the database of target; expected a database for each target"],
        ),
        (
            named("north", "mysql://a:b@localhost/x") + named("south", "mysql://c:d@127.0.0.1:3306/y"),
            ["line 9, [[targets]] url: south is the server of north; expected a server for each target"],
        ),
        (
            '[[targets]]\nurl = "memory:///a"\n',
            ['line 4, [[targets]] name: is missing; expected a name, like name = "shop"'],
        ),
        (
            named("north") + "parallel = 4\n",
            [
                "line 7, [[targets]] parallel: unknown key; expected one of name, url, options; did you mean [load] parallel?"
            ],
        ),
    ],
)
def test_targets_that_cannot_be(tmp_path: Path, text: str, expected: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        config(tmp_path, text)
    assert [str(problem) for problem in refused.value.problems] == expected


def test_two_databases_of_one_server_are_two_targets(tmp_path: Path) -> None:
    found = config(tmp_path, named("a", "postgresql://u:p@h/a") + named("b", "postgresql://u:p@h/b"))
    assert {name: end.database for name, end in found.ends.items()} == {"a": "a", "b": "b"}


def test_a_mysql_is_a_target_as_a_whole_and_empties_tables_in_its_own_way(tmp_path: Path) -> None:
    found = config(tmp_path, named("a", "postgresql://u:p@h/a") + named("b", "mariadb://u:p@h"))
    assert [end.database for end in found.ends.values()] == ["a", ""]
    assert [found.emptying(name) for name in ("a", "b", "")] == ["truncate", "delete", "truncate"]
    said = config(tmp_path, named("b", "mysql://u:p@h") + '[apply]\ntruncate = "truncate"\n')
    assert said.emptying() == "truncate"


def test_one_target_has_the_names_and_places_it_always_had(tmp_path: Path) -> None:
    alone = job(tmp_path, ONE)
    assert alone.target == "target" and not alone.is_one_of_several
    assert (alone.names.apply, alone.names.load, alone.target_home) == ("apply", "load", alone.config.home)
    assert alone.on(None) is alone and alone.on("target") is alone and alone.targets() == [alone]


def test_a_further_target_has_its_own_beside_it(tmp_path: Path) -> None:
    whole = job(tmp_path, ONE + named("south"))
    first, second = whole.targets()
    assert (first.names.apply, second.names.apply) == ("apply", "apply@south")
    assert first.target_home == whole.config.home / "targets" / "target"
    assert second.target_home == whole.config.home / "targets" / "south"
    assert second.trail == first.trail == whole.trail and second.whole.target == ""
    assert (first.endpoint.database, second.endpoint.database) == ("one", "south")


def test_a_single_entry_is_a_target_that_needs_no_name_on_the_command_line(tmp_path: Path) -> None:
    alone = job(tmp_path, named("north"))
    assert alone.on(None).target == "north" and alone.names.apply == "apply@north"
    assert alone.target_home == alone.config.home


def test_of_several_one_has_to_be_named(tmp_path: Path) -> None:
    whole = job(tmp_path, named("north") + named("south"))
    with pytest.raises(ConfigError, match="the job has several targets: north, south") as told:
        whole.on(None)
    assert told.value.hint == "say which: --target NAME"
    with pytest.raises(ConfigError, match="no target 'west'") as told:
        whole.on("west")
    assert told.value.hint == "one of north, south"
    with pytest.raises(ConfigError, match="several targets"):
        whole.parked()
