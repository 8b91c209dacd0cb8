"""Parts that every section of the job file is made of: how it is read, and how a value is refused."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from anabranch.errors import Problem


def refuse(*problems: Problem) -> PydanticCustomError:
    """Build the error that a validator raises; `reading.py` adds line and key."""
    return PydanticCustomError("refused", "{text}", {"text": "; ".join(map(str, problems)), "problems": problems})


class Section(BaseModel):
    model_config = ConfigDict(
        defer_build=True,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        populate_by_name=True,
        arbitrary_types_allowed=True,
    )


def build_sections(parent: type[Section] = Section) -> None:
    """Build the validators of all sections that are imported, for forks of this process to share: pydantic would build them
    when the first job file is read, which takes 40 ms in each process."""
    for section in parent.__subclasses__():
        section.model_rebuild()
        build_sections(section)
