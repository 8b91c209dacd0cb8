"""`anabranch rules preview`: what the rules choose of the tables that a source has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from anabranch.cli.main import main
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

TABLES = ("orders", "tmp_a", "tmp_b", "notes")


@pytest.mark.parametrize("kind", ["mysql", "logical_postgresql"])
def test_tables_are_listed_with_their_target_and_what_decides(
    kind: str,
    request: pytest.FixtureRequest,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = source_database(request.getfixturevalue(kind))
    database.execute(*(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in TABLES))
    server, schema = database.server, "public" if kind == "logical_postgresql" else database.name
    monkeypatch.setenv("PASSWORD", server.password)
    at = f"{server.name}://{server.user}:${{PASSWORD}}@{server.host}:{server.port}/"
    job = tmp_path / "job.toml"
    job.write_text(
        f'name = "shop"\n[source]\nurl = "{at}{database.name if schema == "public" else ""}"\n'
        '[target]\nurl = "postgresql://nobody@127.0.0.1:1/nowhere"\n'
        f'[[rules]]\ninclude = ["{schema}.*", "gone.*"]\nexclude = ["{schema}.tmp_*"]\ntarget = "there.{{table}}"\n'
        f'[[rules]]\ninclude = ["{schema}.tmp_b"]\n'
    )

    def said(*arguments: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["rules", "preview", str(job), *arguments])
        found = capsys.readouterr()
        structlog.reset_defaults()
        return end.value.code, found.out, found.err

    code, out, warned = said()
    lines = [line.split(maxsplit=2) for line in out.splitlines() if line.startswith(f"{schema}.")]
    why = f"rule 1 includes it: '{schema}.*' (line 7)"
    assert code == 0 and lines == [[f"{schema}.{name}", f"there.{name}", why] for name in ("notes", "orders")]
    assert "2 replicated, 2 excluded" in out
    assert "'gone.*' matches no table" in warned and "leaves out" in warned and f"{schema}.tmp_b" in warned
    code, out, _ = said("--all")
    left = [line.split(maxsplit=2) for line in out.splitlines() if line.startswith(f"{schema}.tmp")]
    why = f"rule 1 leaves it out: '{schema}.tmp_*' (line 8)"
    assert code == 0 and left == [[f"{schema}.{name}", "-", why] for name in ("tmp_a", "tmp_b")]
    _, out, _ = said("--json")
    told = {one["table"]: one["target"] for one in json.loads(out)["tables"] if one["table"].startswith(f"{schema}.")}
    assert told == {
        f"{schema}.{name}": None if name.startswith("tmp") else f"there.{name}"
        for name in ("notes", "orders", *TABLES[1:3])
    }
