"""Data directories that are copied: made once for each kind, and never with the name that a server has given itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.testing.fresh import VARIABLE, Fresh
from anabranch.testing.packages import Software


@pytest.fixture
def software(tmp_path: Path) -> Software:
    return Software("mysql", "8.0.33", tmp_path / "home", ())


def test_the_first_is_made_and_the_others_are_copied(
    software: Software, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "fresh"))
    made = list[str]()

    def filled(name: str, *options: str) -> tuple[str, Path]:
        fresh, data = Fresh.of("mysql", software, options), tmp_path / name
        assert fresh is not None
        password = fresh.password()
        data.mkdir(mode=0o700)

        def make() -> None:
            made.append(name)
            (data / "mysql").mkdir()
            (data / "mysql" / "user").write_text(password)
            (data / "auto.cnf").write_text("server-uuid=1")

        fresh.fill(data, make)
        assert (data / "mysql" / "user").read_text() == fresh.password() and data.stat().st_mode & 0o777 == 0o700
        return password, data

    assert filled("one")[0] == filled("two")[0] != filled("other", "--lower-case-table-names=1")[0]
    assert made == ["one", "other"] and not (tmp_path / "two" / "auto.cnf").exists()


def test_nothing_is_kept_where_nobody_asks_for_it_and_of_a_postgresql_never(
    software: Software, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert Fresh.of("postgresql", software, ()) is None
    monkeypatch.delenv(VARIABLE)
    assert Fresh.of("mysql", software, ()) is None
