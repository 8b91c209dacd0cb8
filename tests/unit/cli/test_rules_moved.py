"""`anabranch rules export|import`: rules get from one job file into another, comments and all, and nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from anabranch import failpoints
from anabranch.cli.main import main
from anabranch.config.rule_text import SECTIONS, imported, parted, read
from anabranch.errors import ConfigError
from anabranch.lifecycle import moving_rules

THERE = """\
# dev
name = "dev"

[source]
url = "mysql://u:dev-secret@h"

# what we take
[[rules]]
include = ["shop.*", "crm.customers"]  # all of it
exclude = ["shop.tmp_*"]
target = "public.{table}"

[[tables]]
name = "shop.orders"
where = "id > 5"
[tables.columns]
drop = ["secret"]

[types]
json = "text"
zero_date = "null"
[types.map]
"tinyint(1)" = "boolean"

# columns that go are asked for
[ddl]
drop_column = "ask"

[[ddl.rules]]
tables = ["shop.audit_*"]
action = "park"

# of this end
[target]
url = "postgresql://u:${DEV_PASSWORD}@h/d"
"""
HERE = """\
# prod, do not touch
name = "prod"

[source]
url = "mysql://u:${PROD_PASSWORD}@h"  # the cluster's address

[[rules]]
include = ["shop.orders"]

[types]
json = "jsonb"
nul = "strip"

# two of them
[[targets]]
name = "one"
url = "postgresql://u:p@one/d"
[[targets]]
name = "two"
url = "postgresql://u:p@two/d"
[targets.options]
geometry = "bytea"

[load]
parallel = 2
# the end
"""

Run = Callable[..., tuple[Any, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dev.toml").write_text(THERE)
    (tmp_path / "prod.toml").write_text(HERE)

    def run(*arguments: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as end:
            main(["rules", *arguments])
        found = capsys.readouterr()
        return end.value.code, found.out + found.err

    yield run
    structlog.reset_defaults()


def test_rules_come_as_they_are_written_and_all_else_stays(run: Run, tmp_path: Path) -> None:
    assert run("export", "dev.toml", "-o", "rules.toml")[0] == 0  # without the environment of any end
    text = (tmp_path / "rules.toml").read_text()
    assert (
        "secret@" not in text
        and "PASSWORD" not in text
        and "[target]" not in text
        and "json = " not in text.partition("\n\n")[2]
    )
    assert tomllib.loads(text)["origin"] == {"job": "dev", "source": "mysql", "targets": ["postgresql"]}
    assert run("export", "dev.toml", "-o", "rules.toml")[0] == 2  # there already

    code, said = run("import", "rules.toml", "prod.toml", "--check", "--offline")
    assert code == 4 and '-include = ["shop.orders"]' in said and "+[ddl]" in said and "nothing was written" in said
    assert "PROD" not in said and "p@one" not in said
    assert "options.json of one is 'jsonb', where the rules come from it is 'text'" in said
    assert (tmp_path / "prod.toml").read_text() == HERE
    code, said = run("import", "rules.toml", "prod.toml", "--offline")
    assert code == 0 and "prod.toml is written; next: anabranch plan prod.toml" in said

    made = (tmp_path / "prod.toml").read_text()
    here, there, found = (tomllib.loads(one) for one in (HERE, THERE, made))
    assert parted(found)[0] == parted(there)[0] and parted(found)[1] == parted(here)[1]
    assert found["types"]["json"] == "jsonb" and "nul" not in found["types"]
    for comment in ("# prod, do not touch", "# the cluster's address", "# two of them", "# the end"):
        assert comment in made
    for comment in ("# what we take", "# all of it", "# columns that go are asked for"):
        assert made.count(comment) == 1
    assert "# of this end" not in made and "# dev" not in made
    assert run("import", "rules.toml", "prod.toml", "--check", "--offline") == (
        0,
        "the job file says the same already\n",
    )


def test_a_section_alone_and_a_job_without_rules(run: Run, tmp_path: Path) -> None:
    run("export", "dev.toml", "-o", "rules.toml")
    code, said = run("import", "rules.toml", "prod.toml", "--offline", "--section", "ddl", "--json")
    assert code == 0 and json.loads(said)["written"]
    found = tomllib.loads((tmp_path / "prod.toml").read_text())
    assert found["ddl"] == tomllib.loads(THERE)["ddl"] and found["rules"] == [{"include": ["shop.orders"]}]
    fresh = tmp_path / "new.toml"
    fresh.write_bytes(
        b'\xef\xbb\xbfname = "new"\r\n[source]\r\nurl = "mysql://u:p@h"\r\n[target]\r\nurl = "postgresql://u:p@h/d"'
    )
    fresh.chmod(0o640)
    assert run("import", "rules.toml", "new.toml", "--offline")[0] == 0
    made = fresh.read_bytes()
    assert made.startswith(b"\xef\xbb\xbfname") and b"\n" not in made.replace(b"\r\n", b"")
    assert fresh.stat().st_mode & 0o777 == 0o640 and list(tmp_path.glob(".*")) == []
    assert parted(tomllib.loads(made.decode("utf-8-sig")))[0] == parted(tomllib.loads(THERE))[0]


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ('name = "x"\n[[rules]]\ninclude = ["a.*"]\n', "no file of rules"),
        ('format = 2\n[[rules]]\ninclude = ["a.*"]\n', "format 2, which this release does not know"),
        ('format = 1\n[source]\nurl = "mysql://evil"\n[[rules]]\ninclude = ["a.*"]\n', "has more than rules: source"),
        ("format = 1\n[[rules]\n", "is not TOML"),
        ("format = 1\n[ddl]\nadd_column = 'park'\n", "[[rules]]"),
        ('format = 1\n[[rules]]\ninclude = ["a.*"]\n[[tables]]\nname = "b.c"\n', "no rule includes b.c"),
        ('format = 1\n[[rules]]\ninclude = ["a.*"]\n[[tables]]\nname = "a.c"\nwhere = "id >"\n', "where"),
        ('format = 1\n[[rules]]\ninclude = ["a.*"]\n[[tables]]\nname = "a.c"\ndelta = ["n"]\n', "without [pair]"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(run: Run, tmp_path: Path, rules: str, why: str) -> None:
    (tmp_path / "rules.toml").write_text(rules)
    code, said = run("import", "rules.toml", "prod.toml", "--offline")
    assert code == 2 and why in said and "Traceback" not in said
    assert (tmp_path / "prod.toml").read_text() == HERE


def test_an_end_that_is_away_is_a_warning(run: Run, tmp_path: Path) -> None:
    text = THERE.replace("dev-secret@h", "x@127.0.0.1:1").replace("${DEV_PASSWORD}@h", "x@127.0.0.1:1")
    (tmp_path / "dev.toml").write_text(text)
    (tmp_path / "rules.toml").write_text('format = 1\n[[rules]]\ninclude = ["a.*"]\n')
    code, said = run("import", "rules.toml", "dev.toml")
    assert code == 0 and "is not known" in said and "dev.toml is written" in said


def test_a_kill_leaves_the_file_of_before_or_the_new_one(run: Run, tmp_path: Path) -> None:
    run("export", "dev.toml", "-o", "rules.toml")
    command = [sys.executable, "-m", "anabranch", "rules", "import", "rules.toml", "prod.toml", "--offline"]
    env = {**os.environ, failpoints.VARIABLE: "rules.import.written=exit"}
    assert subprocess.run(command, env=env, capture_output=True, timeout=300).returncode == failpoints.EXIT_CODE
    assert (tmp_path / "prod.toml").read_text() == HERE
    (draft,) = tmp_path.glob(".prod.toml.*.tmp")
    other = tmp_path / f".prod.toml.{os.getppid()}.tmp"  # its process lives
    for pid in (os.getpid(), 0):  # a number that comes again, as in a container; and what no process writes
        draft.with_name(f".prod.toml.{pid or 'x'}.tmp").touch()
    other.touch()
    assert run("import", "rules.toml", "prod.toml", "--offline")[0] == 0
    assert {one.name for one in tmp_path.glob(".*")} == {other.name, ".prod.toml.x.tmp"}


def test_a_file_keeps_its_owner_and_no_other_group_may_read_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("export", "dev.toml", "-o", "rules.toml")
    (tmp_path / "prod.toml").chmod(0o640)
    given, there = [], (tmp_path / "prod.toml").stat()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fchown", lambda handle, owner, group: given.append((owner, group)))
        assert run("import", "rules.toml", "prod.toml", "--offline")[0] == 0
    assert given == [(there.st_uid, -1), (-1, there.st_gid)]
    assert (tmp_path / "prod.toml").stat().st_mode & 0o777 == 0o640
    elsewhere = os.stat_result((*there[:5], there.st_gid + 1, *there[6:]))
    with (tmp_path / "other").open("w") as stream:
        monkeypatch.setattr(os, "fchown", _refused)
        moving_rules._give(stream.fileno(), elsewhere)
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o600


def _refused(*of: int) -> None:
    raise PermissionError


def test_rules_that_are_written_in_one_line_come_too_or_are_refused() -> None:
    rules = 'format = 1\nddl.add_column = "park"\nrules = [{ include = ["a.*"] }]\n'
    made = tomllib.loads(imported(HERE, rules))
    assert made["ddl"] == {"add_column": "park"} and made["rules"] == [{"include": ["a.*"]}]
    with pytest.raises(ConfigError, match="cannot be moved as they are written"):
        imported('name = "x"\ntypes = { json = "text", nul = "strip" }\n', rules)


LINES = ["", "# a comment", "#", "  # [ddl]"]
OTHERS = [
    "[load]\nparallel = 1",
    '[source.options]\nx = """\n[ddl]\n"""',
    "[[targets]]\nname = 'a'",
    "[targets.options]\nu = [\n1, # x\n2]",
]
MINE = [
    '[[rules]]\ninclude = ["a.*"]',
    "[ddl]\nadd_column = 'park'",
    "[[ddl.rules]]\ntables = ['''\n[load]\n''']",
    "[types]\nnul = 'strip'",
]


@st.composite
def files(draw: st.DrawFn, mine: bool) -> str:
    pool = draw(st.lists(st.sampled_from([*OTHERS, *MINE] if mine else MINE), unique=True))
    parts = ["format = 1" if not mine else 'name = "x"', *pool]
    text = "\n".join(part + "\n" + "\n".join(draw(st.lists(st.sampled_from(LINES), max_size=3))) for part in parts)
    return text + draw(st.sampled_from(["", "\n", "\n\n"]))


@given(files(mine=True), files(mine=False), st.sets(st.sampled_from(SECTIONS), min_size=1))
def test_whatever_stands_around_them(job: str, rules: str, sections: set[str]) -> None:
    try:
        here, there = tomllib.loads(job), read(rules, "rules")
    except (tomllib.TOMLDecodeError, ConfigError):
        return
    made = imported(job, rules, sections)
    found = tomllib.loads(made)
    assert parted(found, sections) == (parted(there, sections)[0], parted(here, sections)[1])
    assert parted(tomllib.loads(imported(made, rules, sections))) == parted(found)
