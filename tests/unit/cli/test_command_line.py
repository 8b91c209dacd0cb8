"""The command line: what it prints where, how it ends, and that `--help` loads nothing heavy. As a process where that
makes a difference."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import structlog
from click.testing import CliRunner

from anabranch import __version__
from anabranch.cli import main as shell
from anabranch.cli.main import cli
from anabranch.errors import NotCaughtUp, SourceError, TargetError
from anabranch.rows import installed

PASSWORD = "S3cret@:/%#"
HEAVY = {"pyspark", "pydantic", "pyarrow", "structlog", "rich", "sqlglot", "pymysql", "psycopg", "numpy"}
# Contracts, rules, definitions and what preflight asks: to make their classes takes a third as long as the rest of `status`.
NOT_FOR_STATUS = {
    "anabranch.contracts",
    "anabranch.job.children",
    "anabranch.job.shipping",
    "anabranch.job.tracing",
    "anabranch.state.trace",
    "anabranch.job.watching",
    "anabranch.rules.rule_set",
    "anabranch.model.datatype",
    "anabranch.model.schema",
    "anabranch.preflight.run",
    "anabranch.rows.log_items",
    "anabranch.rows.net",
    "anabranch.connectors.mysql.source.statements",
    "anabranch.connectors.mysql.source.definitions",
    "anabranch.connectors.mysql.source.typemap",
    "anabranch.connectors.postgresql.target.ddl",
    "anabranch.connectors.postgresql.source.definitions",
    "anabranch.connectors.postgresql.target.typemap",
}


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "anabranch", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PW": PASSWORD, **env},
    )


Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """The same in this process."""

    def made(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = shell.exit_code(list(arguments))
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)

    return made


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job whose two ends are down."""
    file = tmp_path / "job.toml"
    file.write_text(
        f'name = "shop"\n[source]\nurl = "mysql://u:${{PW}}@127.0.0.1:{closed_port()}"\n'
        f'[target]\nurl = "postgresql://u:${{PW}}@127.0.0.1:{closed_port()}/d"\n[[rules]]\ninclude = ["shop.*"]\n'
    )
    return file


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["trail", "show", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import json, sys; from anabranch.cli.main import exit_code\n"
        f"code = exit_code({arguments!r})\n"
        "print(json.dumps([code, sorted({m.partition('.')[0] for m in sys.modules})]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    status, modules = json.loads(done.stderr)
    assert status == 0
    assert HEAVY.isdisjoint(modules)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import json, sys, anabranch; print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert HEAVY.isdisjoint(json.loads(done.stdout))


@pytest.mark.parametrize("source", ["mysql://u@127.0.0.1:{port}", "postgresql://u@127.0.0.1:{port}/db"])
def test_status_loads_neither_arrow_nor_what_logs_and_the_supervisor_no_arrow(job: Path, source: str) -> None:
    """Both are asked for often, or stay: they read states and ends, the supervisor definitions, and no rows."""
    text = job.read_text()
    former = next(line for line in text.splitlines() if line.startswith("url"))
    job.write_text(text.replace(former, f'url = "{source.format(port=closed_port())}"', 1))
    code = """
import importlib, json, sys
from anabranch.cli import main
assert main.exit_code(["status", sys.argv[1]]) == 0
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
for one in ("supervisor", "display", "caughtup"):
    importlib.import_module(f"anabranch.job.{one}")
from anabranch.job import Job
from anabranch.view.opened import source_of, target_of
found = Job.from_file(sys.argv[1])
source_of(found).checks(), target_of(found).checks()
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
    called = [sys.executable, "-c", code, str(job)]
    environment = {**os.environ, "PW": PASSWORD, "ANABRANCH_HOME": str(job.parent)}
    done = subprocess.run(called, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    status, supervisor = (set(json.loads(line)) for line in done.stderr.splitlines())
    assert {"pyarrow", "numpy", "structlog", "rich", "sqlglot", "pyspark", *NOT_FOR_STATUS}.isdisjoint(status)
    assert {"pymysql", "psycopg"} & status
    assert {"pyarrow", "numpy", "pyspark"}.isdisjoint(supervisor)


def test_reading_a_log_of_mysql_loads_no_computing_on_arrow() -> None:
    """Capture stays for years, and computes on no column: pyarrow.compute is 20 MB and 50 ms of it."""
    code = (
        "import json, sys\nfrom anabranch.connectors import mysql\nfrom anabranch.connectors.mysql.source import capture\n"
        "from anabranch.capture import run\nfrom anabranch.trail import writer\nprint(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    modules = set(json.loads(done.stdout))
    assert "anabranch.rows.builder" in modules and "pyarrow.compute" not in modules


def test_a_command_that_ends_already_is_not_cut_short_by_sigterm() -> None:
    """As where `run` stops a part that has just ended by itself: what is done at the end is done, and the code stays."""
    code = (
        "import atexit, os, signal; from anabranch.cli.main import main\n"
        "atexit.register(print, 'cleared away')\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
        "main(['verify'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "cleared away\n")
    assert "Traceback" not in done.stderr


def test_help_loads_the_verbs_and_click_alone() -> None:
    """So it answers at once, however busy the machine is: 60 ms of processor."""
    code = (
        "import json, sys; before = set(sys.modules)\nfrom anabranch.cli.main import exit_code\n"
        "code = exit_code(['--help'])\nprint(json.dumps([code, sorted(set(sys.modules) - before)]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    status, modules = json.loads(done.stderr)
    ours = [name for name in modules if name.startswith("anabranch.")]
    others = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"anabranch"}
    assert status == 0
    assert [
        name for name in ours if not name.startswith(("anabranch.cli", "anabranch.errors", "anabranch.version"))
    ] == []
    assert {name for name in others if not name.startswith("_")} <= {"click"}
    assert len(modules) < 300


def test_help_names_every_verb_and_version_is_the_package_s() -> None:
    text = run("--help").stdout
    assert [verb for verb in shell.VERBS if f"\n  {verb} " not in text] == []
    version, decoder = run("--version").stdout.splitlines()
    assert version == f"anabranch {__version__}"
    assert decoder.startswith("decoder: compiled (anabranch-native" if installed.FOUND else "decoder: Python, ")


def test_help_has_each_option_on_one_line_of_80_columns() -> None:
    wide = [line for verb in every_verb(cli, []) for line in wide_lines(verb)]
    assert not wide, "\n".join(wide)


def every_verb(group: click.Group, words: list[str]) -> Iterator[list[str]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield [*words, name]
        if isinstance(command, click.Group):
            yield from every_verb(command, [*words, name])


def wide_lines(words: list[str]) -> list[str]:
    """Return the lines of a verb's options that a line before did not have room for."""
    shown = CliRunner().invoke(cli, [*words, "--help"], terminal_width=80).output
    sections = re.findall(r"^(?:General o|O)ptions:\n((?:  .*\n)+)", shown, re.MULTILINE)
    assert sections, shown
    return [f"{' '.join(words)}: {line}" for some in sections for line in some.splitlines() if line[2] != "-"]


def test_the_version_says_why_python_decodes() -> None:
    told = run("--version", ANABRANCH_COMPILED="off").stdout
    assert "switched off by ANABRANCH_COMPILED" in told and "pip install ./native" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["statsu", "x"], "No such command 'statsu'. Did you mean 'status'?"),
        (["run", "x", "--secnds", "3"], "No such option '--secnds'. Did you mean '--seconds'?"),
        (["run"], "Missing argument 'JOB'"),
        (["run", "x", "--seconds", "0"], "0.0 is not in the range x>0"),
        (["load", "x", "--recreate"], "--recreate needs --table"),
        (["load", "x", "--from", "1"], "--from needs --table"),
        (["load", "x", "--table", "a.b", "--from-now", "--keep"], "--from-now copies nothing: it goes without --keep"),
        (["load", "x", "--keep-rows"], "--keep-rows needs --table"),
        (
            ["load", "x", "--table", "a.b", "--keep-rows"],
            "--keep-rows alters the table that is there: it needs --recreate",
        ),
        (["load", "x", "--table", "a.b", "--recreate", "--plan"], "--plan needs --keep-rows"),
        (
            ["load", "x", "--table", "a.b", "--recreate", "--keep-rows", "--from", "b.1:4"],
            "--keep-rows goes on from the place where the table stands, and --from names one",
        ),
        (["trail", "show", "x", "--from", "soon"], "'soon' is no position"),
        (["trail", "show", "x", "--key", "id"], "'id' is not COLUMN=VALUE"),
        (["trail", "show", "x", "--table", "orders"], "expected schema.table"),
        (["load", "x", "--table", "orders"], "expected schema.table"),
        (["load", "x", "--table", ""], "expected schema.table, got ''"),
        (["status", "x", "--log-level", "loud"], "'loud' is not one of"),
        (["verify", "x", "--budget", "ten"], "a time is wanted, as 90s, 10m or 2h"),
        (["verify", "x", "--sample", "5"], "a part of the rows is wanted, from 0.01% to 100%"),
        (["verify", "x", "--sample", "0%"], "a part of the rows is wanted, from 0.01% to 100%"),
        (["verify", "x", "--sample", "5%", "--since", "1"], "without --since and without --repair"),
        (["verify", "x", "--sample", "5%", "--repair"], "without --since and without --repair"),
        (["verify", "x", "--seed", "5"], "--seed is for --sample"),
        (["verify", "x", "--max-pause", "2m"], "apply is held for 60 s at most"),
        (["verify", "x", "--max-pause", "5s", "--since", "1"], "without --max-pause"),
        (["verify", "x", "--watch", "--sample", "5%", "--seed", "5"], "--watch draws other ranges at each turn"),
        (["verify", "x", "--budget", "0m"], "a time is wanted, as 90s, 10m or 2h"),
    ],
)
def test_a_wrong_command_line_ends_with_2(call: Call, arguments: list[str], message: str) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("verb", ["run", "capture", "load", "apply", "preflight", "status", "verify", "drop"])
def test_every_verb_refuses_a_wrong_job_file_with_every_problem(call: Call, tmp_path: Path, verb: str) -> None:
    (tmp_path / "job.toml").write_text('name = "shop"\n[source]\nurl = "mysqll://u:S3cret@h"\n[laod]\n')
    done = call(verb, str(tmp_path / "job.toml"))
    assert done.returncode == 2
    assert done.stdout == ""
    start = '{"message": "' if verb in shell.LOGGING else "error: "
    assert done.stderr.startswith(f"{start}{tmp_path}/job.toml has 4 problems") and done.stderr.count("4 problems") == 1
    assert "line 3, [source] url: unknown URL scheme 'mysqll'" in done.stderr
    assert "line 4, laod: unknown section" in done.stderr
    assert "S3cret" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_job_file(call: Call) -> None:
    done = call("status", "nowhere.toml")
    assert (done.returncode, done.stderr) == (
        2,
        "error: there is no job file nowhere.toml — JOB is the path of a job file\n",
    )


def test_preflight_of_ends_that_are_down_ends_with_an_end_s_code(job: Path) -> None:
    done = run("preflight", str(job), "--json", PW=PASSWORD)
    assert done.returncode in (5, 6)
    failed = {one["check"] for one in json.loads(done.stdout)["checks"] if one["verdict"] == "failed"}
    assert failed == {"source.reached", "target.reached"}
    assert PASSWORD not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_status_of_a_job_that_never_ran_leaves_nothing_behind(job: Path, tmp_path: Path) -> None:
    done = run("status", str(job), "--json", ANABRANCH_HOME=str(tmp_path / "home"))
    assert done.returncode == 2  # the target cannot say either whether it has run
    assert str(tmp_path / "home") in done.stderr and "does not exist" in done.stderr
    found = json.loads(done.stdout)
    assert (found["job"], found["phase"], found["parts"]) == ("shop", "stopped", [])
    (tmp_path / "home").mkdir()
    assert run("status", str(job), "--json", ANABRANCH_HOME=str(tmp_path / "home")).returncode == 0
    (tmp_path / "home").rmdir()
    assert PASSWORD not in done.stdout + done.stderr
    assert not (tmp_path / "home").exists()


def test_a_trail_that_is_not_there(call: Call, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", PASSWORD)
    monkeypatch.setenv("ANABRANCH_HOME", str(job.parent))
    done = call("trail", "ls", str(job))
    assert done.returncode == 7
    assert done.stderr.startswith("error: there is no trail in ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_verb_with_its_code(tmp_path: Path, number: int, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never greets
        (tmp_path / "job.toml").write_text(
            f'name = "shop"\n[source]\nurl = "mysql://u:p@127.0.0.1:{silent.getsockname()[1]}"\n'
            f'[target]\nurl = "postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/d"\n[[rules]]\ninclude = ["a.*"]\n'
        )
        command = [sys.executable, "-m", "anabranch", "preflight", str(tmp_path / "job.toml")]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        connection, _ = silent.accept()
        process.send_signal(number)
        _, errors = process.communicate(timeout=180)
        connection.close()
    assert process.returncode == code
    assert "Traceback" not in errors


@pytest.fixture(autouse=True)
def _logging_is_put_back() -> Iterator[None]:
    """A verb that runs in this process binds the log to the test's stderr."""
    yield
    structlog.reset_defaults()


def broken(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.job import Job

    def status(_: Job) -> None:
        raise error

    monkeypatch.setattr(Job, "status", status)


def test_a_bug_is_one_line_with_the_traceback_in_the_jobs_logs(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PW", PASSWORD)
    monkeypatch.setenv("ANABRANCH_HOME", str(job.parent))
    (job.parent / "shop").mkdir()
    broken(RuntimeError("one\ntwo"), monkeypatch)
    assert shell.exit_code(["status", str(job)]) == 1
    (file,) = (job.parent / "shop" / "logs").iterdir()
    assert capsys.readouterr().err == f"unexpected error: RuntimeError: one (this is a bug; traceback in {file})\n"
    assert "RuntimeError: one\ntwo" in file.read_text()


@pytest.mark.parametrize(
    ("error", "code", "messages"),
    [
        (TargetError("down", hint="start it"), 6, ["error: down — start it"]),
        (NotCaughtUp("a\n  b", hint="more"), 9, ["error: a", "  b", "  -> more"]),
        (ExceptionGroup("both", [TargetError("t"), SourceError("s")]), 5, ["error: t", "error: s"]),
        (KeyboardInterrupt(), 130, []),
    ],
)
def test_errors_become_messages_and_codes(
    job: Path,
    error: BaseException,
    code: int,
    messages: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PW", PASSWORD)
    broken(error, monkeypatch)
    assert shell.exit_code(["status", str(job)]) == code
    assert [line for line in capsys.readouterr().err.splitlines() if line] == messages


def test_types_wants_a_job_or_two_ends(call: Call) -> None:
    for words in ([], ["job.toml", "--source", "mysql://a@h/"], ["--source", "mysql://a@h/"]):
        done = call("types", *words)
        assert done.returncode == 2 and "--source URL and --target URL" in done.stderr
