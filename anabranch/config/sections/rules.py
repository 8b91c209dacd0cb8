"""`[[rules]]` of the job file.

What does not live here: which tables they choose (`anabranch/rules/`).
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

from pydantic import AfterValidator, Field

from anabranch.config.patterns import PLACEHOLDERS, Template
from anabranch.config.section import Section, refuse
from anabranch.config.values import PatternText
from anabranch.errors import Problem


def _template(text: str) -> str:
    try:
        Template.parse(text)
    except ValueError as error:
        nearest = next((p for p in PLACEHOLDERS if get_close_matches(p, text.replace(".", "{").split("{"), 1)), "")
        problem = Problem(
            f"{text!r} is no name for a target table",
            expected=f'{error}, like "public.{{table}}"',
            nearest=f"{{{nearest}}}" if nearest and f"{{{nearest}}}" not in text else "",
        )
        raise refuse(problem) from None
    return text


class Rule(Section):
    """Tables to replicate, and their target. At least one rule; of several that match, the first gives the target."""

    include: list[PatternText] = Field(min_length=1)
    """Case-sensitive globs on `schema.table` (MySQL: `database.table`). A part in double quotes is taken literally."""
    exclude: list[PatternText] = []
    """Globs of tables that are left out, whatever another rule says. Preflight warns of tables that another rule includes, and
    names both rules."""
    target: Annotated[str, AfterValidator(_template)] = "{schema}.{table}"
    """The target table's name, with `{schema}` and `{table}` of the source. Missing target schemas are created."""
