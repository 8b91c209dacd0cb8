"""The contracts between engines and connectors: all of them in one place, each small enough to be implemented at a glance."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from inspect import getmembers, isclass, isfunction
from pathlib import Path

import pytest

import anabranch
from anabranch import contracts
from rigs.source_text import statements

MOST = 8  # methods of a contract, inherited ones among them
OF_ONE_ROOM = (
    "apply",
    "capture",
    "cutover",
    "job",
    "lifecycle",
    "spark",
    "testing",
    "trail",
    "verify",
    "waits.py",
)  # no connector may import them


def protocols() -> dict[str, type]:
    found = {name: value for name, value in vars(contracts).items() if isclass(value)}
    return {name: value for name, value in found.items() if getattr(value, "_is_protocol", False)}


@pytest.mark.parametrize("name", sorted(protocols()))
def test_a_contract_has_at_most_eight_methods(name: str) -> None:
    methods = [method for method, _ in getmembers(protocols()[name], isfunction) if not method.startswith("_")]
    assert 0 < len(methods) <= MOST, methods


@pytest.mark.parametrize("name", sorted(protocols()))
def test_a_contract_says_what_it_is_for(name: str) -> None:
    assert (protocols()[name].__doc__ or "").strip().endswith((".", ")")) or name in ("Dialect", "TypeMap")


def test_everything_that_a_contract_file_defines_is_imported_from_the_package() -> None:
    for file in Path(contracts.__file__).parent.glob("*.py"):
        names = {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
        assert names <= set(contracts.__all__), file.name


def elsewhere() -> Iterator[str]:
    """Protocols of rooms that connectors may import."""
    root = Path(anabranch.__file__).parent
    for file in root.rglob("*.py"):
        place = file.relative_to(root)
        if place.parts[0] in ("contracts", "connectors", *OF_ONE_ROOM):
            continue
        for node in statements(file.read_text()):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases):
                yield f"{place}: {node.name}"


def test_no_contract_of_connectors_stands_elsewhere() -> None:
    # Of the trail's own format; of texts that are made of changes, which no connector implements; of a job file; of what is no
    # database; of where a manager keeps what it knows, which no job reads; of who records spans.
    known = {
        "spans.py: Recorder",
        "spans.py: Span",
        "rows/sections.py: Section",
        "rows/messages/format.py: Format",
        "config/hops.py: Sections",
        "stores/contract.py: ObjectStore",
        "transport/pump.py: Session",
        "manager/store_contract.py: Found",
        "manager/store_contract.py: Keeper",
        "manager/store_contract.py: Writing",
    }
    assert set(elsewhere()) <= known
