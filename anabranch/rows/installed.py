"""The compiled code (`anabranch-native`): is it installed, does it fit, may it be used. Loads no Arrow.

What does not live here: what is done with it (`compiled.py`).
"""

from __future__ import annotations

import os
from typing import Any

try:
    import anabranch_native as found
except ImportError:
    found = None

INTERFACE = 6
SWITCH = "ANABRANCH_COMPILED"  # "off" hides the compiled code, as if it were not installed; children and executors take it over
IS_HIDDEN = os.environ.get(SWITCH, "").strip().lower() in ("off", "0", "no", "false")
IS_OTHER = found is not None and getattr(found, "INTERFACE", None) != INTERFACE
FOUND: Any = None if IS_HIDDEN or IS_OTHER else found
REMEDY = "install the wheel of anabranch-native of this release, or pip install ./native in a checkout (needs cargo)"
COST = "a backlog takes about three times as long as with the compiled one, a load's lines three times the processor's time"


def reason() -> str:
    """Say why the compiled code is not used, for a process that does without it."""
    if IS_HIDDEN:
        return f"the compiled decoder is switched off by {SWITCH}"
    return "the compiled decoder is of another version" if IS_OTHER else "the compiled decoder is not installed"


def version() -> str:
    """Return the release of the compiled code that is installed; raises PackageNotFoundError where none is."""
    from importlib import metadata  # 15 ms, which only those who ask pay

    return metadata.version("anabranch-native")


def described() -> str:
    """Name the decoder that is in use, for `--version`."""
    if FOUND is not None:
        return f"compiled (anabranch-native {version()})"
    return f"Python, {reason()} — {REMEDY}; {COST}"
