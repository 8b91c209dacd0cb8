"""The frame around each method of `Job`: errors that name the job, hints for what is not installed, the trace of commands.

What does not live here: the methods (`job/job.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from anabranch import waits
from anabranch.errors import AnabranchError, ConfigError, install_hint
from anabranch.view.job_view import JobView


class NamedJob(JobView):
    """A job whose methods say in their errors which job it is."""

    @contextmanager
    def _named(self, command: str = "", changes: bool = True, **facts: Any) -> Iterator[None]:
        """Add the job's name to errors, and to a missing package how it is installed. The log tells of waits for other
        sessions meanwhile. A `command` that changes something goes into the trace."""
        is_traced = bool(command) and changes
        try:
            with waits.listening(lambda server, text: None):
                yield
        except AnabranchError as error:
            error.job = error.job or self.label
            if is_traced:
                self._trace(command, facts, error)
            raise
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "pyspark":
                raise
            raise ConfigError(
                "Spark is not installed (pyspark)", hint=install_hint("spark"), job=self.config.name
            ) from missing
        if is_traced:
            self._trace(command, facts)

    def _trace(self, command: str, facts: Mapping[str, Any], error: AnabranchError | None = None) -> None:
        from anabranch.job.tracing import commanded

        commanded(self, command, facts, error)
