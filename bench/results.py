"""What the last run of each workload showed, kept as JSON: one file per workload, source and target (without the
target's name where it is a PostgreSQL), of which docs/explanation/performance.md is made (docs/performance_pages.py).

A file is replaced as a whole, when all figures of its workload are there."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.stand import Stand

RESULTS = Path(__file__).with_name("results")
POSTGRESQL = "postgresql"


def keep(directory: Path, workload: str, stand: Stand, size: str, repeat: int, figures: Sequence[Figure]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    facts = {
        "workload": workload,
        "source": stand.name,
        "target": stand.at.kind,
        "date": time.strftime("%Y-%m-%d"),
        "size": size,
        "repeat": repeat,
        "machine": machine(),
        "versions": {stand.name: stand.source.version, "target": stand.target.version, **versions()},
        "figures": [figure.to_json() for figure in figures],
    }
    file = directory / file_name(workload, stand.name, stand.at.kind)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
    draft.replace(file)


def file_name(workload: str, source: str, target: str) -> str:
    return f"{workload}-{source}.json" if target == POSTGRESQL else f"{workload}-{source}-{target}.json"


def machine() -> dict[str, Any]:
    """How many processors may be used, how much memory there is, what the system is; what else ran when it was asked."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
    }


def versions() -> dict[str, str]:
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python, "pyspark": version("pyspark"), "pyarrow": version("pyarrow")}
