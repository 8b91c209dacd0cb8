"""Wrong job files as a table: what stands in the file -> every line of the message, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.errors import ConfigError

GOOD = """\
name = "shop"
[source]
url = "mysql://repl:${PW}@127.0.0.1:3306/shop"
[target]
url = "postgresql://app:${PW}@127.0.0.1:5432/shop"
[[rules]]
include = ["shop.*"]
"""
ENV = {"PW": "S3cret@:/%#"}
NAME_RULE = "1 to 63 letters, digits, '_' or '-', beginning with a letter or digit (it names a directory)"
TOP_KEYS = (
    "name, source, target, targets, rules, tables, load, capture, ddl, apply, types, spark, retry, "
    "trace, trail, metrics, observe, compat, cutover, reverse, pair"
)
URL = "scheme://user:${PASSWORD}@host:port/database"
ENCODE = "write special characters of a user or password as %XX, or use ${VARIABLE}, which is taken literally"
OPTIONS = "ssl_ca, ssl_cert, ssl_key, ssl_mode, unix_socket"
ORIGIN = 'expected "anabranch:NAME" for what the job NAME has written, or an origin that the log names'
SOURCES = "one of mysql://, mariadb://, postgresql://"
TARGETS = f"{SOURCES}, kafka://"
POSTGRESQL_MODES = (
    "disable, prefer, require, verify-ca, verify-full, disabled, preferred, required, verify_ca, verify_identity"
)
MYSQL_MODES = "disabled, preferred, required, verify_ca, verify_identity"


def source(url: str) -> str:
    return GOOD.replace("mysql://repl:${PW}@127.0.0.1:3306/shop", url)


def target(url: str) -> str:
    return GOOD.replace("postgresql://app:${PW}@127.0.0.1:5432/shop", url)


def more(text: str) -> str:
    """Begins at line 8."""
    return GOOD + text


CASES: dict[str, tuple[str, list[str]]] = {
    "unknown section": (
        more("[laod]\nparallel = 2\n"),
        [f"line 8, laod: unknown section; expected one of {TOP_KEYS}; did you mean load?"],
    ),
    "unknown key": (
        more("[load]\nparalel = 2\n"),
        [
            "line 9, [load] paralel: unknown key; expected one of parallel, existing, lock, format, defer_constraints;"
            " did you mean parallel?"
        ],
    ),
    "unknown key of a section that may be left out": (
        GOOD.replace("[target]\n", "[target]\nurll = 1\n"),
        ["line 5, [target] urll: unknown key; expected one of url, options, form; did you mean url?"],
    ),
    "key in the wrong section": (
        more("[apply]\nparallel = 2\n"),
        [
            "line 9, [apply] parallel: unknown key; expected one of mode, appliers, commit_order, truncate, triggers,"
            " on_conflict, on_error, set_aside_limit, runner, stage_rows; did you mean [load] parallel?"
        ],
    ),
    "key of a later release": (
        more('[[tables]]\nname = "shop.a"\ncolumns = { mask = { email = "sha256" } }\n'),
        ["line 10, [[tables]] columns.mask: unknown key; expected one of drop, rename, type, zero_date"],
    ),
    "unknown key at the top": (
        "parallel = 2\n" + GOOD,
        [f"line 1, parallel: unknown key; expected one of {TOP_KEYS}; did you mean [load] parallel?"],
    ),
    "text for a number": (
        more('[load]\nparallel = "4"\n'),
        ["line 9, [load] parallel: '4' is not a whole number; expected a whole number, without quotes"],
    ),
    "true for a number": (
        more("[load]\nparallel = true\n"),
        ["line 9, [load] parallel: True is not a whole number; expected a whole number, without quotes"],
    ),
    "number for a switch": (
        more("[load]\ndefer_constraints = 1\n"),
        ["line 9, [load] defer_constraints: 1 is neither true nor false; expected true or false, without quotes"],
    ),
    "unknown choice": (
        more('[load]\nexisting = "emty"\n'),
        [
            "line 9, [load] existing: 'emty' is no choice here; expected 'refuse', 'empty', 'keep' or 'take_over';"
            " did you mean 'empty'?"
        ],
    ),
    "too small": (
        more("[capture]\nflush_interval_ms = 9\n"),
        ["line 9, [capture] flush_interval_ms: 9 is too small; expected at least 10"],
    ),
    "too large": (
        more("[capture]\nflush_interval_ms = 60001\n"),
        ["line 9, [capture] flush_interval_ms: 60001 is too large; expected at most 60000"],
    ),
    "a job to leave out with a name that none has": (
        GOOD.replace("[target]", 'leave_out = ["77", "anabranch:a b"]\n[target]'),
        [f"line 4, [source] leave_out: 'a b' cannot be a job's name; {ORIGIN}"],
    ),
    "a job to leave out in other words": (
        GOOD.replace("[target]", 'leave_out = ["Anabranch.back", " "]\n[target]'),
        [
            f"line 4, [source] leave_out: 'Anabranch.back' names no origin; {ORIGIN}; did you mean anabranch:back?",
            f"line 4, [source] leave_out: ' ' names no origin; {ORIGIN}",
        ],
    ),
    "server id 0": (
        more("[capture]\nserver_id = 0\n"),
        ["line 9, [capture] server_id: 0 is too small; expected at least 1"],
    ),
    "section that is a value": (
        "load = 4\n" + GOOD,
        ["line 1, [load]: is not a section; expected a section"],
    ),
    "no name": (
        GOOD.replace('name = "shop"\n', ""),
        ['name: is missing; expected a name, like name = "shop"'],
    ),
    "no url": (
        source("x").replace('url = "x"\n', ""),
        [f'line 2, [source] url: is missing; expected url = "{URL}"'],
    ),
    "no source and no rules": (
        GOOD[: GOOD.index("[source]")] + GOOD[GOOD.index("[target]") : GOOD.index("[[rules]]")],
        [
            "[source]: is missing; expected a section [source]",
            '[[rules]]: is missing; expected at least one [[rules]] with include = ["shop.*"]',
        ],
    ),
    "name that is no file name": (
        GOOD.replace('"shop"', '"../shop"'),
        [f"line 1, name: '../shop' cannot be a job's name; expected {NAME_RULE}"],
    ),
    "name that is too long": (
        GOOD.replace('"shop"', f'"{"a" * 64}"'),
        [f"line 1, name: '{'a' * 64}' cannot be a job's name; expected {NAME_RULE}"],
    ),
    "name with a line end": (
        GOOD.replace('"shop"', '"shop\\n"'),
        [f"line 1, name: 'shop\\n' cannot be a job's name; expected {NAME_RULE}"],
    ),
    "unknown scheme": (
        source("mysqll://u:${PW}@h/d"),
        [f"line 3, [source] url: unknown URL scheme 'mysqll'; expected {SOURCES}; did you mean mysql://?"],
    ),
    "scheme by its nickname": (
        target("postgres://u:${PW}@h/d"),
        [f"line 5, [target] url: unknown URL scheme 'postgres'; expected {TARGETS}; did you mean postgresql://?"],
    ),
    "both ends": (
        GOOD.replace("mysql://repl:${PW}@127.0.0.1:3306", "postgresql://${U1}:p@h").replace(
            "postgresql://app:${PW}@127.0.0.1:5432/shop", "mysql://h"
        ),
        [
            "line 3, [source] url: the environment variable U1 is not set; expected ${U1} to have a value",
            "line 5, [target] url: the URL names no user; expected mysql://user:${PASSWORD}@host/…",
        ],
    ),
    "nickname of a scheme that is a source, too": (
        source("postgres://u@h"),
        [f"line 3, [source] url: unknown URL scheme 'postgres'; expected {SOURCES}; did you mean postgresql://?"],
    ),
    "scheme of a Python driver": (
        source("mysql+pymysql://u:${PW}@h/d"),
        [f"line 3, [source] url: unknown URL scheme 'mysql+pymysql'; expected {SOURCES}; did you mean mysql://?"],
    ),
    "a store of a trail": (
        source("trail+kafka://u:${PW}@h:9092/shop"),
        [
            "line 3, [source] url: trail+kafka:// cannot be an end of a job; "
            "expected the trail+file:// to which a pump brings such a trail"
        ],
    ),
    "no URL at all": (
        source("127.0.0.1:3306"),
        [f"line 3, [source] url: not a URL; expected {URL}"],
    ),
    "URL that is no text": (
        GOOD.replace('"mysql://repl:${PW}@127.0.0.1:3306/shop"', "3306"),
        ["line 3, [source] url: is not text; expected a URL in quotes"],
    ),
    "password with a slash": (
        source("mysql://repl:S3cret/x@h/d"),
        [f"line 3, [source] url: the URL has a '#', '/', '?' or '@' where none can be; expected {ENCODE}"],
    ),
    "password with a hash": (
        source("mysql://repl:S3cret#x@h/d"),
        [f"line 3, [source] url: the URL has a '#', '/', '?' or '@' where none can be; expected {ENCODE}"],
    ),
    "port that is none": (
        source("mysql://repl:${PW}@h:S3cret/d"),
        [
            "line 3, [source] url: the port of the URL is not a port;"
            f" expected a number from 1 to 65535 after the host; {ENCODE}"
        ],
    ),
    "port that is too large": (
        source("mysql://repl:${PW}@h:65536/d"),
        [
            "line 3, [source] url: the port of the URL is not a port;"
            f" expected a number from 1 to 65535 after the host; {ENCODE}"
        ],
    ),
    "no user": (
        source("mysql://h/d"),
        ["line 3, [source] url: the URL names no user; expected mysql://user:${PASSWORD}@host/…"],
    ),
    "no host": (
        source("mysql://repl:${PW}@/d"),
        ["line 3, [source] url: the URL names no host; expected a host after the @, or the option unix_socket"],
    ),
    "no target database": (
        target("postgresql://app:${PW}@h"),
        ["line 5, [target] url: the URL names no database; expected postgresql://user:${PASSWORD}@host:port/database"],
    ),
    "two target databases": (
        target("postgresql://app:${PW}@h/a/b"),
        ["line 5, [target] url: the URL has more than one name after the host; expected one database"],
    ),
    "unknown option": (
        source("mysql://u:${PW}@h/d?sslca=/x"),
        [f"line 3, [source] url: unknown option 'sslca' in the URL; expected one of {OPTIONS}; did you mean ssl_ca?"],
    ),
    "unknown ssl_mode": (
        source("mysql://u:${PW}@h/d?ssl_mode=require"),
        [
            f"line 3, [source] url: unknown ssl_mode 'require' in the URL; expected one of {MYSQL_MODES};"
            " did you mean required?"
        ],
    ),
    "missing variables, all of them": (
        source("mysql://${U1}:${U2}@${U3}:${U4}/d"),
        [
            f"line 3, [source] url: the environment variable U{n} is not set; expected ${{U{n}}} to have a value"
            for n in (3, 4, 1, 2)
        ],
    ),
    "an unknown scheme hides no missing variable": (
        source("mysqll://u:${U1}@h/d"),
        [
            f"line 3, [source] url: unknown URL scheme 'mysqll'; expected {SOURCES}; did you mean mysql://?",
            "line 3, [source] url: the environment variable U1 is not set; expected ${U1} to have a value",
        ],
    ),
    "a URL out of a variable that is missing": (
        source("${U1}"),
        [
            f"line 3, [source] url: not a URL; expected {URL}",
            "line 3, [source] url: the environment variable U1 is not set; expected ${U1} to have a value",
        ],
    ),
    "a missing variable hides nothing else of the URL": (
        target("postgresql://app:${U1}@h:0?ssl_mode=none"),
        [
            "line 5, [target] url: the port of the URL is not a port;"
            f" expected a number from 1 to 65535 after the host; {ENCODE}",
            "line 5, [target] url: the environment variable U1 is not set; expected ${U1} to have a value",
            f"line 5, [target] url: unknown ssl_mode 'none' in the URL; expected one of {POSTGRESQL_MODES}",
            "line 5, [target] url: the URL names no database;"
            " expected postgresql://user:${PASSWORD}@host:port/database",
        ],
    ),
    "what a missing variable stands for is not missing": (
        source("mysql://${U1}:${U2}@/${U3}?unix_socket=${U4}&ssl_mode=${U5}"),
        [
            f"line 3, [source] url: the environment variable U{n} is not set; expected ${{U{n}}} to have a value"
            for n in range(1, 6)
        ],
    ),
    "entries, filters and values in one round": (
        more(
            '[[tables]]\nname = "shop.a"\nwhere = "id ="\n[[tables]]\nname = "shop.a"\n'
            '[[tables]]\nname = "crm.x"\n[load]\nparallel = 0\n'
        ),
        [
            "line 10, [[tables]] where: is no filter",
            "line 12, [[tables]] name: shop.a has an entry already (number 1); expected one entry",
            "line 14, [[tables]] name: no rule includes crm.x; expected a table that is replicated",
            "line 16, [load] parallel: 0 is too small; expected at least 1",
        ],
    ),
    "newest without a column, a column without newest": (
        more(
            '[[tables]]\nname = "shop.a"\non_conflict = "newest"\n[[tables]]\nname = "shop.b"\nnewest_by = "at"\n'
            '[apply]\non_conflict = "newest"\n'
        ),
        [
            'line 8, [[tables]]: on_conflict = "newest" needs newest_by;'
            ' expected a column, like newest_by = "changed_at"',
            'line 11, [[tables]]: newest_by has no effect; expected it together with on_conflict = "newest"',
            "line 15, [apply] on_conflict: 'newest' compares a column of one table; expected it in [[tables]], with newest_by",
        ],
    ),
    "entries beside a pattern that is none": (
        more('[[tables]]\nname = "crm.x"\n[[tables]]\nname = "crm.x"\n').replace('"shop.*"', '"shop"'),
        [
            "line 7, [[rules]] include: 'shop' is no table pattern;"
            ' expected two parts with one dot between them, like "shop.*"',
            "line 11, [[tables]] name: crm.x has an entry already (number 1); expected one entry",
        ],
    ),
    "sections that are values": (
        "tables = 4\nrules = 5\n" + GOOD.replace('[[rules]]\ninclude = ["shop.*"]\n', ""),
        [
            'line 1, [[tables]]: is not a list; expected a list, like ["…"]',
            'line 2, [[rules]]: is not a list; expected a list, like ["…"]',
        ],
    ),
    "pattern without a dot": (
        GOOD.replace('"shop.*"', '"shop"'),
        [
            "line 7, [[rules]] include: 'shop' is no table pattern;"
            ' expected two parts with one dot between them, like "shop.*"'
        ],
    ),
    "pattern with three parts, on its own line": (
        GOOD.replace('["shop.*"]', '[\n  "shop.*",\n  "a.b.c", # three\n]'),
        [
            "line 9, [[rules]] include: 'a.b.c' is no table pattern;"
            ' expected two parts with one dot between them, like "shop.*"'
        ],
    ),
    "pattern with an open quote": (
        GOOD.replace('"shop.*"', "'\"shop.*'"),
        [
            "line 7, [[rules]] include: '\"shop.*' is no table pattern;"
            ' expected two parts with one dot between them, like "shop.*"'
        ],
    ),
    "rule without include": (
        more('[[rules]]\ntarget = "a.b"\n'),
        ['line 8, [[rules]] include: is missing; expected patterns, like include = ["shop.*"]'],
    ),
    "rule that includes nothing": (
        GOOD.replace('["shop.*"]', "[]"),
        ["line 7, [[rules]] include: is empty; expected at least 1 entry"],
    ),
    "include that is no list": (
        GOOD.replace('["shop.*"]', '"shop.*"'),
        ['line 7, [[rules]] include: is not a list; expected a list, like ["…"]'],
    ),
    "renamed columns that are no table": (
        more('[[tables]]\nname = "shop.orders"\ncolumns.rename = "fname"\n'),
        ["line 10, [[tables]] columns.rename: is not a table; expected a table, like { a = … }"],
    ),
    "unknown placeholder": (
        more('target = "public.{tabel}"\n'),
        [
            "line 8, [[rules]] target: 'public.{tabel}' is no name for a target table;"
            ' expected no other placeholders than {schema} and {table}, like "public.{table}"; did you mean {table}?'
        ],
    ),
    "target without a schema": (
        more('target = "{table}"\n'),
        [
            "line 8, [[rules]] target: '{table}' is no name for a target table;"
            ' expected two parts with one dot between them, like "public.{table}"'
        ],
    ),
    "entry for a table no rule includes": (
        more('[[tables]]\nname = "crm.people"\n'),
        ["line 9, [[tables]] name: no rule includes crm.people; expected a table that is replicated"],
    ),
    "entry for a table that another rule excludes": (
        more('exclude = ["crm.p*"]\n[[rules]]\ninclude = ["crm.*"]\n[[tables]]\nname = "crm.people"\n'),
        ["line 12, [[tables]] name: rule 1 excludes crm.people, for all rules; expected a table that is replicated"],
    ),
    "two entries for a table": (
        more('[[tables]]\nname = "shop.a"\n[[tables]]\nname = "shop.a"\n'),
        ["line 11, [[tables]] name: shop.a has an entry already (number 1); expected one entry"],
    ),
    "entry without a schema": (
        more('[[tables]]\nname = "people"\n'),
        ["line 9, [[tables]] name: 'people' names no table; expected schema.table, like \"shop.customers\""],
    ),
    "column dropped and renamed": (
        more('[[tables]]\nname = "shop.a"\ncolumns = { drop = ["x"], rename = { x = "y" } }\n'),
        ["line 10, [[tables]] columns: x: dropped and renamed; expected one of the two"],
    ),
    "Spark setting that is a list": (
        more('[spark.conf]\n"spark.jars" = ["a.jar"]\n'),
        ['line 8, [spark] conf: spark.jars is not a setting; expected text, like "4g"'],
    ),
    "several at once, in the order of the file": (
        GOOD.replace('"shop"', '"-"').replace("mysql:", "oracle:") + "[aply]\n[types]\nnul = 0\n",
        [
            f"line 1, name: '-' cannot be a job's name; expected {NAME_RULE}",
            f"line 3, [source] url: unknown URL scheme 'oracle'; expected {SOURCES}",
            f"line 8, aply: unknown section; expected one of {TOP_KEYS}; did you mean apply?",
            "line 10, [types] nul: 0 is no choice here; expected 'stop' or 'strip'",
        ],
    ),
}
NOT_TOML = {  # the wording after the line is the TOML reader's
    "broken string": (GOOD + 'x = "a\n', 8),
    "open section": ("[source\n" + GOOD, 1),
    "key twice": ("name = 'a'\n" + GOOD, 2),
    "no value": (GOOD + "x = \n", 8),
    "end of the file": (GOOD + "x = [1,", 8),
}


def no_filter(text: str) -> None:
    if text.endswith("="):
        raise ValueError("is no filter")


def problems_of(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "job.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_job(file, ENV, no_filter)
    assert caught.value.exit_code == 2
    assert "S3cret" not in str(caught.value)
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == list(map(str, caught.value.problems))
    return list(map(str, caught.value.problems))


def test_the_good_one_is_good(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(GOOD)
    assert load_job(tmp_path / "job.toml", ENV).name == "shop"


@pytest.mark.parametrize("case", CASES)
def test_wrong_values(tmp_path: Path, case: str) -> None:
    text, expected = CASES[case]
    assert problems_of(tmp_path, text) == expected


@pytest.mark.parametrize("case", NOT_TOML)
def test_broken_toml(tmp_path: Path, case: str) -> None:
    text, line = NOT_TOML[case]
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith(f"line {line}: ")


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"')
    for name, message in (
        ("none.toml", f"there is no job file {tmp_path}/none.toml — JOB is the path of a job file"),
        ("", f"{tmp_path} is a directory — JOB is the path of a job file"),
        ("latin.toml", f"{tmp_path}/latin.toml is not UTF-8 (byte 11) — save it as UTF-8"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_job(tmp_path / name, ENV)
        assert str(caught.value) == message
