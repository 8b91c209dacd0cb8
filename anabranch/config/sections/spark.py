"""`[spark]` of the job file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from anabranch.config.section import Section, refuse
from anabranch.errors import Problem


def _settings(value: Any) -> Any:
    """Return settings as text with dotted names.

    `spark.executor.memory = "4g"` without quotes around the name is nested tables in TOML.
    """
    return dict(_flat("", value)) if isinstance(value, dict) else value


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else key, inner)
    elif isinstance(value, str | bool | int | float):
        yield prefix, value if isinstance(value, str) else str(value).lower()
    else:
        raise refuse(Problem(f"{prefix} is not a setting", expected='text, like "4g"'))


class Spark(Section):
    """Settings of Spark, which runs the data pipeline."""

    master: str = Field(default="local[*]", min_length=1)
    """Spark's master: `local[N]` on this machine, `spark://HOST:7077`, `yarn` or `k8s://https://HOST:PORT` for a
    [cluster](../howto/on-a-spark-cluster.md)."""
    archive: str | None = Field(default=None, min_length=1)
    """File with the Python environment of a cluster's executors, `bin/python` in it, as `venv-pack` and `conda-pack` write it.
    When absent, they have the interpreter of this process, at the same path."""
    conf: Annotated[dict[str, str], BeforeValidator(_settings)] = Field(default={}, repr=False)
    """Spark settings, by their own names: `"spark.executor.memory" = "4g"`."""
