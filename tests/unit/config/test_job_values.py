"""Right job files: URLs with secrets, defaults, home, patterns, what may change between starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from anabranch.config import JobConfig, describe_change, load_job
from anabranch.config.hop_files import PumpFile
from anabranch.config.lines import key_lines
from anabranch.config.patterns import Pattern, Template
from anabranch.config.section import Section
from anabranch.config.url import parse_url
from anabranch.databases import registry
from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId

GOOD = """\
name = "shop"
[source]
url = "mysql://repl:${PW}@127.0.0.1:3306/shop"
[target]
url = "postgresql://app:%C3%A4%40b@[::1]/shop?ssl_mode=require&ssl_ca=${CA}"
[[rules]]
include = ["shop.*"]
exclude = ["shop.tmp_*"]
target = "public.{table}"
[[tables]]
name = "shop.customers"
columns = { drop = ["notes"], rename = { fname = "first_name" } }
where = "country = 'DE'"
[spark.conf]
"spark.executor.memory" = "4g"
spark.ui.enabled = false
spark.sql.shuffle.partitions = 8
"""
ENV = {"PW": "p@ss:/%40#?${X}", "CA": "/etc/c&a.pem"}


def load(tmp_path: Path, text: str = GOOD, env: Mapping[str, str] = ENV) -> JobConfig:
    (tmp_path / "job.toml").write_text(text)
    return load_job(tmp_path / "job.toml", env)


def test_a_variable_is_put_in_after_the_url_is_parsed_and_taken_literally(tmp_path: Path) -> None:
    job = load(tmp_path)
    assert job.source.endpoint == Endpoint("mysql", "127.0.0.1", 3306, "repl", ENV["PW"], "shop")
    options = (("ssl_mode", "require"), ("ssl_ca", "/etc/c&a.pem"))
    assert job.target.endpoint == Endpoint("postgresql", "::1", 5432, "app", "ä@b", "shop", options)


def test_secrets_are_in_no_text_of_the_job(tmp_path: Path) -> None:
    job = load(tmp_path)
    texts = [
        repr(job),
        str(job),
        repr(job.source),
        str(job.model_dump()),
        job.model_dump_json(),
        str(job.fingerprint()),
    ]
    assert not [text for text in texts if ENV["PW"] in text or "ä@b" in text]


def test_defaults_and_settings(tmp_path: Path) -> None:
    job = load(tmp_path)
    assert (job.load.parallel, job.load.existing, job.load.lock, job.load.defer_constraints) == (
        4,
        "refuse",
        "none",
        False,
    )
    assert (job.capture.flush_interval_ms, job.capture.segment_mb, job.capture.retain_hours) == (1000, 64, 24)
    assert (job.apply.mode, job.emptying(), job.apply.stage_rows) == ("epoch", "truncate", None)
    assert (job.types.zero_date, job.types.nul, job.type_choices()["json"]) == ("stop", "stop", "jsonb")
    assert job.spark.master == "local[*]"
    assert job.spark.conf == {
        "spark.executor.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
    }


def test_a_section_that_is_absent_is_as_an_empty_one() -> None:
    """The defaults are made without being validated."""
    fields = [field for model in Section.__subclasses__() for field in model.model_fields.values()]
    made = [field.default for field in fields if isinstance(field.default, Section)]
    assert PumpFile in Section.__subclasses__()  # those of hops are there once somebody has imported them
    assert len(made) == 20
    assert made == [type(one)() for one in made]


def test_the_home_is_absolute_and_named_after_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(tmp_path).home == tmp_path / ".anabranch" / "shop"
    assert load(tmp_path, env={**ENV, "ANABRANCH_HOME": "/var/lib/anabranch"}).home == Path("/var/lib/anabranch/shop")
    assert load(tmp_path, env={**ENV, "ANABRANCH_HOME": "jobs"}).home == tmp_path / "jobs" / "shop"


def test_a_file_with_a_byte_order_mark_and_dos_line_ends(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    job = load_job(tmp_path / "job.toml", ENV)
    assert job.line_of("tables", 0, "where") == 13


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://u@h", ("h", 3306, "u", "", "")),
        ("mariadb://u:@h:1/", ("h", 1, "u", "", "")),
        ("mysql://u%40x:a:b@h/d%2Fx", None),
        ("mysql://u%40x:a:b@h/d", ("h", 3306, "u@x", "a:b", "d")),
        ("mysql://u:${A}${B}-%24%7BA%7D@${H}:${P}/${D}", ("db", 7, "u", "%41@-${A}", "d d")),
        ("mysql://u:p@/d?unix_socket=/run/my.sock", ("", 3306, "u", "p", "d")),
    ],
)
def test_urls(url: str, expected: tuple[object, ...] | None) -> None:
    env = {"A": "%41", "B": "@", "H": "db", "P": "7", "D": "d d"}
    endpoint, problems = parse_url(url, env, needs_database=False)
    found = endpoint and (endpoint.host, endpoint.port, endpoint.user, endpoint.password, endpoint.database)
    assert found == expected
    assert bool(problems) == (expected is None)


def test_a_scheme_has_the_roles_that_its_connector_can_play() -> None:
    roles = ("source", "target")
    can = {
        name: tuple(role for role in roles if _makes_one(f"{one.package}.{role}")) for name, one in registry().items()
    }
    assert {name: one.roles for name, one in registry().items()} == can


def _makes_one(module: str) -> bool:
    return find_spec(module) is not None and hasattr(import_module(module), "connector")


@pytest.mark.parametrize(
    ("pattern", "table", "matches"),
    [
        ("shop.*", TableId("shop", "orders"), True),
        ("shop.*", TableId("Shop", "orders"), False),
        ("shop.Order?", TableId("shop", "orders"), False),
        ("shop.order?", TableId("shop", "orders"), True),
        ("shop.[a-c]x", TableId("shop", "bx"), True),
        ("shop.[!a-c]x", TableId("shop", "bx"), False),
        ("*.*", TableId("a.b", "c.d"), True),
        ('"a.b".*', TableId("a.b", "c"), True),
        ('shop."a*b"', TableId("shop", "a*b"), True),
        ('shop."a*b"', TableId("shop", "axb"), False),
        ('shop."a""b"', TableId("shop", 'a"b'), True),
        ("shop.übung", TableId("shop", "übung"), True),
        ("shop.a", TableId("shop", "a\n"), False),
    ],
)
def test_patterns(pattern: str, table: TableId, matches: bool) -> None:
    assert Pattern.parse(pattern).matches(table) is matches


def test_a_printed_table_name_is_a_pattern_of_that_table_alone() -> None:
    odd = TableId("a.b", 'c"*? [x]')
    assert Pattern.parse(str(odd)).matches(odd)
    assert not Pattern.parse(str(odd)).matches(TableId("a.b", 'c"zz [x]'))


def test_templates() -> None:
    table = TableId("shop", "a.{schema}")
    assert Template.parse("public.{table}").render(table) == TableId("public", "a.{schema}")
    assert Template.parse("{schema}_copy.t_{table}").render(table) == TableId("shop_copy", "t_a.{schema}")
    assert Template.parse('"x.y".{table}').render(table) == TableId("x.y", "a.{schema}")


def test_line_map() -> None:
    text = (
        '# c = 1\n"a b".c = """\nx = 1\n""" # not a key\n'  # 2
        "d = [ # comment ]\n  1,\n  [2,\n 3], { e = 4,\n f = 5 } ]\n"  # 5..9
        "[[t]]\nk = 'x # y'\n[t.sub]\nz = 1979-05-27 07:32:00\n[[t]]\nk.l.m = 2\n[x.'y.z']\n"
    )
    lines = key_lines(text)
    assert lines[("a b", "c")] == 2
    assert lines[("d", 1, 1)] == 8
    assert (lines[("d", 2, "e")], lines[("d", 2, "f")]) == (8, 9)
    assert (lines[("t", 0, "k")], lines[("t", 0, "sub", "z")], lines[("t", 1, "k", "l", "m")]) == (11, 13, 15)
    assert lines[("x", "y.z")] == 16


def test_a_job_that_was_run_before_types_could_be_chosen(tmp_path: Path) -> None:
    now = load(tmp_path).fingerprint()
    old = {name: value for name, value in now.items() if name != "types"}
    old["tables"] = {name: {k: v for k, v in one.items() if k != "type"} for name, one in old["tables"].items()}
    assert describe_change(old, now) == []


def test_a_job_over_ipv6_that_was_run_before_its_host_had_brackets(tmp_path: Path) -> None:
    now = load(tmp_path, GOOD.replace("127.0.0.1:3306", "[::1]:3306")).fingerprint()
    assert now["source"] == "mysql://[::1]:3306/shop"
    old = {**now, "source": "mysql://::1:3306/shop"}
    assert describe_change(old, now) == []
    assert describe_change({**old, "source": "mysql://::2:3306/shop"}, now)


@pytest.mark.parametrize("option", ["arrays", "composites", "computed"])
def test_a_job_that_was_run_before_its_target_had_an_option(tmp_path: Path, option: str) -> None:
    there = re.sub("postgresql://.*", 'mysql://app:x@db:3306/"', GOOD)
    now = load(tmp_path, there).fingerprint()
    options = now["options"]["target"]
    old = {**now, "options": {**now["options"], "target": {key: options[key] for key in options if key != option}}}
    assert option in options and describe_change(old, now) == []
    other = "values" if option == "computed" else "json"
    changed = load(tmp_path, f'{there}\n[target.options]\n{option} = "{other}"\n').fingerprint()
    (change,) = describe_change(old, changed)
    assert str(change) == f"[target.options] {option}: was {options[option]}, is {other}"


def test_what_may_change_between_starts(tmp_path: Path) -> None:
    old = load(tmp_path).fingerprint()
    free = (
        GOOD.replace("repl:", "other:").replace("app:", "web:") + "[load]\nparallel = 9\n[types]\nzero_date = 'null'\n"
    )
    assert describe_change(old, load(tmp_path, free).fingerprint()) == []
    entry = '[[tables]]\nname = "shop.orders"\non_conflict = "source_wins"\n'
    assert describe_change(old, load(tmp_path, GOOD + entry).fingerprint()) == []
    assert (
        describe_change(old, load(tmp_path, GOOD.replace('include = ["shop.*"]', "include=['shop.*']")).fingerprint())
        == []
    )


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("127.0.0.1:3306", "10.0.0.1:3306", "source: was mysql://127.0.0.1:3306/shop, is mysql://10.0.0.1:3306/shop"),
        ('["shop.*"]', '["shop.*", "crm.*"]', "rule 1 include: was shop.*, is shop.*, crm.*"),
        ('exclude = ["shop.tmp_*"]\n', "", "rule 1 exclude: was shop.tmp_*, is absent"),
        ("public.{table}", "x.{table}", "rule 1 target: was public.{table}, is x.{table}"),
        ("'DE'", "'AT'", "table shop.customers where: was country = 'DE', is country = 'AT'"),
        ('["notes"]', "[]", "table shop.customers dropped columns: was notes, is absent"),
        ("[spark.conf]", '[types]\njson = "text"\n[spark.conf]', "[target.options] json: was jsonb, is text"),
        (
            "[spark.conf]",
            '[types]\ngeometry = "geometry"\n[spark.conf]',
            "[target.options] geometry: was bytea, is geometry",
        ),
        (
            "[spark.conf]",
            '[types.map]\n"bit(1)" = "boolean"\n[spark.conf]',
            "[types] map: was absent, is bit(1) = boolean",
        ),
        (
            '["notes"]',
            '["notes"], type = { n = "text" }',
            "table shop.customers types of columns: was absent, is n = text",
        ),
    ],
)
def test_what_needs_a_load(tmp_path: Path, before: str, after: str, line: str) -> None:
    old = load(tmp_path).fingerprint()
    assert before in GOOD
    (found,) = describe_change(old, load(tmp_path, GOOD.replace(before, after)).fingerprint())
    assert str(found) == line


def test_what_stands_for_a_zero_date(tmp_path: Path) -> None:
    for text in ("stop", "null", "0001-01-01", "9999-12-31", "-infinity", "infinity"):
        columns = f'["notes"], zero_date = {{ at = "{text}" }}'
        job = load(tmp_path, GOOD.replace('["notes"]', columns) + f'[types]\nzero_date = "{text}"\n')
        assert job.types.zero_date == text and job.zero_dates == (("shop.customers", "at", text),)
    for text in ("", "0000-00-00", "2023-02-29", "20240101", "now", "-0001-01-01", "10000-01-01"):
        with pytest.raises(ConfigError, match="is no date"):
            load(tmp_path, GOOD + f'[types]\nzero_date = "{text}"\n')


RELAXED = 'mode = "transaction"\nappliers = 3\ncommit_order = "relaxed"\n'
APPLIERS = {
    "in epochs": ("appliers = 2", 'appliers = 2 with mode = "epoch"'),
    "beside triggers": ('mode = "transaction"\nappliers = 4\ntriggers = "fire"', 'with triggers = "fire"'),
    "too many": ('mode = "transaction"\nappliers = 9', "appliers"),
    "relaxed, one": ('mode = "transaction"\ncommit_order = "relaxed"', 'commit_order = "relaxed" with appliers = 1'),
    "relaxed, in epochs": ('commit_order = "relaxed"\nappliers = 3', 'appliers = 3 with mode = "epoch"'),
    "relaxed, parks": (RELAXED + 'on_error = "park"', 'commit_order = "relaxed" with on_error = "park"'),
    "relaxed, sets aside": (RELAXED + 'on_error = "set_aside"', 'commit_order = "relaxed" with on_error = "set_aside"'),
    "relaxed, decides": (RELAXED + 'on_conflict = "source_wins"', 'with on_conflict = "source_wins"'),
    "relaxed, decides of a table": (
        RELAXED + '[[tables]]\nname = "shop.orders"\non_conflict = "ignore_missing"',
        'with on_conflict = "ignore_missing" of shop.orders',
    ),
}


@pytest.mark.parametrize(("text", "words"), APPLIERS.values(), ids=APPLIERS)
def test_several_appliers_are_refused_where_their_order_could_not_be_shown(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, GOOD + f"[apply]\n{text}\n")
    assert words in "; ".join(map(str, refused.value.problems))
    assert load(tmp_path, GOOD + '[apply]\nmode = "transaction"\nappliers = 4\n').apply.appliers == 4
