"""List objects of stores whose places are folders, in the order of their names, a folder at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from anabranch.stores.contract import Found
from anabranch.stores.names import is_hidden

UPLOADS = ".uploads"  # the folder of what is not whole yet
SHARED = (UPLOADS, "readers")  # what those write, too, who only read: these have the mode of the root
ABANDONED_S = 24 * 3600.0  # an upload that nobody has written to for so long was cut in half


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder in a folder. `size`: bytes of a file."""

    name: str
    is_folder: bool
    size: int = 0


def below(listed: Callable[[str], Iterable[Entry]], prefix: str) -> Iterator[Found]:
    """Yield the objects whose names begin with `prefix`. `listed` tells what is in a folder ("": the root), nothing where it
    is not there. In memory are the entries of one folder, and of those above it."""
    return _below(listed, prefix.rpartition("/")[0], prefix)


def _below(listed: Callable[[str], Iterable[Entry]], folder: str, prefix: str) -> Iterator[Found]:
    place = f"{folder}/" if folder else ""
    # A folder stands where the names in it stand: "a-b" comes before "a/b".
    inside = {f"{place}{one.name}{'/' * one.is_folder}": one for one in listed(folder) if not is_hidden(one.name)}
    for name in sorted(inside):
        if inside[name].is_folder:
            if name.startswith(prefix) or prefix.startswith(name):
                yield from _below(listed, name[:-1], prefix)
        elif name.startswith(prefix):
            yield Found(name, inside[name].size)


def folders_of(name: str) -> list[str]:
    """Return the folders that an object's name leads through, the outermost first."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]
