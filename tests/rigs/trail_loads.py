"""A load in a trail, as files: what its readers, pumps and exports have to do with is there, rows are not."""

from __future__ import annotations

import json
import os
from pathlib import Path

TABLE = "shop.orders"


def a_load(trail: Path, number: int = 1, files: int = 2, table: str = TABLE) -> list[str]:
    """Put a load into a trail, with its manifest; return the names of its files."""
    folder = trail / "load" / table / str(number)
    folder.mkdir(parents=True)
    names = [f"load/{table}/{number}/{one:06}.arrow" for one in range(files)]
    for name in names:
        (trail / name).write_bytes(b"rows")
    facts = {"lower": None, "upper": None, "low": "1", "high": "1", "rows": 1, "bytes": 4, "sha256": "ab"}
    chunks = [{"file": name} | facts for name in names]
    manifest = {"format": 1, "table": table, "generation": number, "version": 1, "columns": ["id"], "chunks": chunks}
    (folder.parent / "manifest.json.tmp").write_text(json.dumps(manifest))
    os.replace(folder.parent / "manifest.json.tmp", folder.parent / "manifest.json")
    return names
