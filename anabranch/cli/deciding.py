"""The line of the job file that decides what a message is about.

What does not live here: which key a hint names (config/deciding.py).
"""

from __future__ import annotations

from anabranch.config import load_job
from anabranch.config.deciding import deciding, names_key
from anabranch.errors import AnabranchError, ConfigError


def deciding_line(error: AnabranchError, arguments: list[str]) -> str:
    """Return ` (shop.toml: line 14)`; "" where the hint names no key, or there is no job file."""
    file = next((argument for argument in arguments if argument.endswith(".toml")), "")
    if not file or not error.hint or isinstance(error, ConfigError) or not names_key(error.hint):
        return ""
    try:
        told = deciding(load_job(file), error.hint, error.table or "")
    except AnabranchError:
        return ""
    return f" ({file}: {told})" if told else ""
