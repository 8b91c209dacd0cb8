"""Prepare a Kafka: one archive of classes for each Java, and a storage of its own for each broker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from anabranch.testing.cache import ServerUnavailable
from anabranch.testing.class_archive import FILE
from anabranch.testing.kafka_prepared import BOOTSTRAP, format_storage, java_options, prepared
from anabranch.testing.packages import Software


@pytest.fixture
def software(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Software:
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "cache"))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "java").write_text("#!/bin/sh\necho 17 >&2\n")
    (programs / "java").chmod(0o755)
    return Software("kafka", "4.3.0", tmp_path / "home", (programs,))


def test_a_start_is_made_once_and_each_broker_has_its_own_storage(software: Software, tmp_path: Path) -> None:
    starts = list[Sequence[str]]()

    def start(directory: Path, options: Sequence[str]) -> Path:
        starts.append(options)
        Path(options[0].partition("=")[2]).write_text("classes")
        (directory / "data").mkdir()
        (directory / "data" / BOOTSTRAP).write_text("features")
        return directory / "data"

    made = prepared(software, start)
    prepared.cache_clear()  # as another process
    assert made is not None and prepared(software, start) == made and len(starts) == 1
    assert sorted(one.name for one in made.iterdir()) == [BOOTSTRAP, FILE]
    assert java_options(made)[0] == f"-XX:SharedArchiveFile={made / FILE}"
    found = []
    for node in ("1", "2"):
        format_storage(made, tmp_path / node, "c" * 22, node)
        assert (tmp_path / node / BOOTSTRAP).read_text() == "features"
        lines = (tmp_path / node / "meta.properties").read_text().splitlines()
        found.append(dict(line.split("=") for line in lines))
    assert [(one["version"], one["cluster.id"], one["node.id"]) for one in found] == [
        ("1", "c" * 22, "1"),
        ("1", "c" * 22, "2"),
    ]
    own = {one["directory.id"] for one in found}
    assert len(own) == 2 and all(len(one) == 22 for one in own)


def test_where_it_cannot_be_made_there_is_none(software: Software) -> None:
    def start(directory: Path, options: Sequence[str]) -> Path:
        raise ServerUnavailable("no Kafka")

    assert prepared(software, start) is None
