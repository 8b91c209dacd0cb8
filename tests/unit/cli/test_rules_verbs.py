"""`anabranch rules explain`: which line of the job file decides about a table, without any server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from anabranch.cli.main import main
from anabranch.config import load_job
from anabranch.job import Job
from anabranch.model.ids import TableId
from anabranch.rules.decided import decided

JOB = """\
name = "shop"
[source]
url = "mysql://u:p@h"
[target]
url = "postgresql://u:p@h/d"
[[rules]]
include = ["shop.*", "crm.customers"]
exclude = ["shop.tmp_*"]
target = "public.{table}"
[[rules]]
include = ["*.orders", "shop.tmp_b"]
[[tables]]
name = "shop.orders"
where = "id > 5"
columns.drop = ["secret"]
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job") / "job.toml"
    path.write_text(JOB)
    return path


@pytest.fixture
def explain(job: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[Any, str]]]:
    def run(*arguments: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as end:
            main(["rules", "explain", str(job), *arguments])
        found = capsys.readouterr()
        return end.value.code, found.out + found.err

    yield run
    structlog.reset_defaults()


def test_the_first_inclusion_decides_unless_any_rule_excludes(explain: Callable[..., tuple[Any, str]]) -> None:
    assert explain("shop.orders") == (
        0,
        "shop.orders goes to public.orders\n"
        "  rule 1 includes it: 'shop.*' (line 7)\n"
        "  without effect: rule 2 includes it: '*.orders' (line 11)\n"
        "  columns.drop = ['secret']\n"
        "  where = id > 5\n",
    )
    assert explain("shop.tmp_b") == (
        0,
        "shop.tmp_b is not replicated\n"
        "  rule 1 leaves it out: 'shop.tmp_*' (line 8)\n"
        "  without effect: rule 1 includes it: 'shop.*' (line 7)\n"
        "  without effect: rule 2 includes it: 'shop.tmp_b' (line 11)\n",
    )
    assert explain("crm.leads") == (0, "crm.leads is not replicated\n  no rule includes it\n")
    code, text = explain("shop.orders", "--json")
    found = json.loads(text)
    assert code == 0 and found["by"] == {"rule": 1, "key": "include", "pattern": "shop.*", "line": 7}
    assert found["target"] == "public.orders" and found["others"][0]["rule"] == 2
    assert found["settings"] == {"columns.drop": ["secret"], "where": "id > 5"}


def test_what_is_no_table_is_said(explain: Callable[..., tuple[Any, str]]) -> None:
    code, text = explain("orders")
    assert code == 2 and "orders" in text and "schema.table" in text and "Traceback" not in text


@given(st.sampled_from(["shop", "crm", "other"]), st.sampled_from(["orders", "customers", "tmp_a", "tmp_b", "x"]))
def test_it_is_what_the_rules_do(job: Path, schema: str, name: str) -> None:
    table = TableId(schema, name)
    assert decided(load_job(job), table).target == Job.from_file(job).rules.target_of(table)
