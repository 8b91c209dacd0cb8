"""Images that wait one section behind another: those of the compiled decoder, then those that Python has read, and so on.

What does not live here: what a section holds (the connectors)."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

S = TypeVar("S", bound="Section")


class Section(Protocol):
    @property
    def images(self) -> int:
        """Count the images; never 0."""

    def first(self: S, count: int) -> S:
        """Return a section of so many from the front."""

    def rest(self: S, count: int) -> S:
        """Return a section without so many from the front."""


class Sections(Generic[S]):
    """A queue of sections, in the order in which their images came. `waiting`: the list itself."""

    def __init__(self) -> None:
        self.waiting: list[S] = []

    def drop(self, count: int) -> None:
        """Remove the last `count` images."""
        while count:
            last = self.waiting.pop()
            if last.images > count:
                self.waiting.append(last.first(last.images - count))
            count -= min(count, last.images)

    def take(self, count: int) -> list[S]:
        """Remove and return the first `count` images."""
        taken: list[S] = []
        while count:
            section = self.waiting.pop(0)
            if section.images > count:
                self.waiting.insert(0, section.rest(count))
                section = section.first(count)
            taken.append(section)
            count -= section.images
        return taken
