"""A row security policy that somebody makes at the target while the job applies, or loads: nothing is written in part, and the
error names the policy and the statement that lets the job go on."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import merge_rows
from anabranch.errors import TargetError
from anabranch.rows.net import RowChange, TableNet, Updates
from rigs.endpoints import endpoint_of
from rigs.postgresql_writer import TABLE, Applying, keys, prepared, rows, three

NAME = 'public."Or%ders"'
POLICY = (
    f"ALTER TABLE {NAME} ENABLE ROW LEVEL SECURITY",
    f"ALTER TABLE {NAME} FORCE ROW LEVEL SECURITY",
    f'CREATE POLICY "only small" ON {NAME} USING (id < 2)',
)
LIFT = (f'DROP POLICY "only small" ON {NAME}', f"ALTER TABLE {NAME} DISABLE ROW LEVEL SECURITY")
CHANGES = {
    "insert": TableNet(TABLE, inserts=rows((7, None, None))),
    "update": TableNet(TABLE, updates=(Updates(keys(2), rows((Decimal(7),), names=("amount",))),)),
    "delete": TableNet(TABLE, deletes=keys(3)),
    "in the window": TableNet(TABLE, deletes=keys(3), checked=False),
}


@pytest.fixture
def ordinary(target_database: Any) -> Iterator[str]:
    """Owns the tables, so that FORCE decides; may not switch triggers off."""
    user = f"{target_database.name[-20:]}_plain"
    prepared(target_database)
    target_database.execute(
        f"CREATE ROLE {user} LOGIN PASSWORD 'p'",
        f"ALTER TABLE {NAME} OWNER TO {user}",
        f"GRANT USAGE, CREATE ON SCHEMA anabranch TO {user}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA anabranch TO {user}",
    )
    yield user
    target_database.execute(f"DROP OWNED BY {user} CASCADE", f"DROP ROLE {user}")


@pytest.mark.parametrize("few", [0, merge_rows.FEW_ROWS], ids=["staged", "few"])
def test_a_policy_that_comes_while_changes_are_applied(
    target_database: Any, ordinary: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_rows, "FEW_ROWS", few)
    applying = Applying(endpoint_of(target_database, ordinary, "p"))
    three(applying)
    before = target_database.query(f"SELECT * FROM {NAME} ORDER BY id")
    for kind, net in CHANGES.items():
        target_database.execute(*POLICY)
        with pytest.raises(TargetError, match="policies only small") as refused:
            applying.merge(net)
        assert refused.value.hint == 'ALTER TABLE "public"."Or%ders" NO FORCE ROW LEVEL SECURITY', kind
        with pytest.raises(TargetError, match="policies only small"), applying as writer:
            writer.change(RowChange(TABLE, "update", {"id": "2"}, {"amount": "9"}))
        target_database.execute(*LIFT)
        assert target_database.query(f"SELECT * FROM {NAME} ORDER BY id") == before, kind
    target_database.execute(*POLICY, refused.value.hint)
    for net in CHANGES.values():
        applying.merge(net)
    assert target_database.query(f"SELECT id, amount FROM {NAME} ORDER BY id")[1:] == [(2, Decimal(7)), (7, None)]
    applying.writer.close()
