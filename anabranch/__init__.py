"""anabranch copies databases while they are in use.

`import anabranch` is cheap: it loads neither pyspark nor pydantic nor a database driver. `anabranch.Job` is
resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from anabranch.version import __version__

if TYPE_CHECKING:
    from anabranch.job import Job

__all__ = ["Job", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Job":
        return import_module("anabranch.job").Job
    raise AttributeError(f"module 'anabranch' has no attribute {name!r}")
