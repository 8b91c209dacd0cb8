"""The committed reference pages say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_generated_pages_are_up_to_date() -> None:
    called = [sys.executable, "docs/generate.py", "--check"]
    done = subprocess.run(called, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run: python docs/generate.py"
