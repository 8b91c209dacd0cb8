"""The demo's job: its file, the `anabranch run` that follows the shop, and `anabranch verify` afterwards.

They are the commands a user would type, as processes of their own. What does not live here: the databases (shop.py).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anabranch.demo.child import Child
from anabranch.demo.shop import ACCOUNT, NAME, End, schema_at
from anabranch.errors import AnabranchError, DifferencesFound, NotCaughtUp, TablesParked

if TYPE_CHECKING:
    from anabranch.job import Job

STOP_SECONDS = 90.0  # more than the job gives its parts
JOB_FILE = """\
name = "{name}"

[source]
url = "{source}"

[target]
url = "{target}"

[[rules]]
include = ["{schema}.*"]
target = "{there}.{{table}}"
"""
PASSWORDS = ("DEMO_SOURCE_PASSWORD", "DEMO_TARGET_PASSWORD")


class DemoFailed(AnabranchError):
    """A command of the demo ended as it should not; its own messages are on stderr already."""

    def __init__(self, command: str, code: int) -> None:
        super().__init__(f"anabranch {command} ended with code {code}", hint="its message stands above")
        self.exit_code = code if code > 0 else 128 - code


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The job in `directory`: `shop.toml` and the variables that its URLs name, also as a file for another shell. `name` is
    another one for its way back."""

    directory: Path
    variables: dict[str, str] = field(repr=False)
    name: str = NAME

    @classmethod
    def write(
        cls, directory: Path, source: End, target: End, java: Mapping[str, str], form: str = JOB_FILE
    ) -> Pipeline:
        """Write job file and variables, `java` with them; the latter are readable by their owner only. `form`: the job file
        with the places of JOB_FILE."""
        is_postgresql = source.database.server.name == "postgresql"
        schema, path = ("public", f"/{NAME}") if is_postgresql else (NAME, "")
        family = target.database.server.name
        job_file = form.format(
            name=NAME,
            schema=schema,
            source=f"{source.database.server.name}://{ACCOUNT}:${{{PASSWORDS[0]}}}@{source.address}{path}",
            target=f"{family}://{ACCOUNT}:${{{PASSWORDS[1]}}}@{target.address}/{NAME}",
            there=schema_at(family),
        )
        variables = dict(zip(PASSWORDS, (source.password, target.password), strict=True))
        variables |= {"ANABRANCH_HOME": str(directory), **java}
        pipeline = cls(directory, variables)
        pipeline.job_file.write_text(job_file)
        pipeline.env_file.touch(mode=0o600)
        pipeline.env_file.write_text("".join(f"export {k}={shlex.quote(v)}\n" for k, v in variables.items()))
        return pipeline

    @property
    def job_file(self) -> Path:
        return self.directory / f"{self.name}.toml"

    @property
    def env_file(self) -> Path:
        return self.directory / "env.sh"

    def job(self) -> Job:
        """Return the job as an object of this process, to look at it."""
        from anabranch.job import Job

        os.environ.update(self.variables)  # what the job file's ${…} stand for
        return Job.from_file(self.job_file)

    def command(self, verb: str, *options: str, stdout: int | None = None) -> Child:
        """Start `anabranch VERB JOB OPTIONS`."""
        return Child([sys.executable, "-m", "anabranch", verb, str(self.job_file), *options], self.variables, stdout)

    def verify(self) -> dict[str, Any]:
        """Run `anabranch verify --json` and return its output. Raises DemoFailed."""
        return self.answer("verify", allowed=(DifferencesFound.exit_code, TablesParked.exit_code))

    def verify_beside(self, budget: str) -> dict[str, Any]:
        """Run `anabranch verify` beside the application, for so long at most: what is pending then is no failure."""
        codes = DifferencesFound.exit_code, TablesParked.exit_code, NotCaughtUp.exit_code
        return self.answer("verify", "--budget", budget, allowed=codes)

    def answer(self, verb: str, *options: str, allowed: Sequence[int] = ()) -> dict[str, Any]:
        """Run `anabranch VERB --json` and return its output. Raises DemoFailed on a code that is neither 0 nor `allowed`."""
        with self.command(verb, *options, "--json", stdout=subprocess.PIPE) as child:
            said, _ = child.process.communicate()
            code = child.process.returncode
        if code not in (0, *allowed) or not said:
            raise DemoFailed(verb, code)
        found: dict[str, Any] = json.loads(said)
        return found


class RunningJob:
    """`anabranch run` as a context. Leaving it ends the job, also on an error."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._child = pipeline.command("run")

    def check(self) -> None:
        """Raise DemoFailed if the job has ended by itself."""
        code = self._child.process.poll()
        if code is not None:
            raise DemoFailed("run", code)

    def stop(self) -> None:
        """Let the job finish its epoch and end. Raises DemoFailed if it ends with an error."""
        code = self._child.stop(STOP_SECONDS)
        if code:
            raise DemoFailed("run", code)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.kill()
