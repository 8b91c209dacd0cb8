"""A table that is made anew gets owner, privileges and triggers back in order, and the log names what the server refuses."""

from __future__ import annotations

from anabranch.connectors.postgresql.target.made_anew import Given, Privilege, _statements
from anabranch.model.ids import TableId

ITEM = TableId("shop", "item")


def test_privileges_of_the_jobs_user_are_given_behind_the_owner() -> None:
    """A next owner takes over what its predecessor was granted."""
    mine, other = Privilege("SELECT", False, "job", None), Privilege("SELECT", False, "reader", None)
    before, now = Given("app", (mine, other), (), ()), Given("job", (), (), ())
    said = [statement for statement, _ in _statements(ITEM, before, now, set())]
    assert [one.split()[0] for one in said] == ["GRANT", "ALTER", "GRANT"]
    assert "reader" in said[0] and "OWNER TO" in said[1] and "job" in said[2]


def test_texts_of_triggers_and_comments_are_not_told() -> None:
    before = Given("job", (), ((None, "hush"),), (("audit", "O", "CREATE TRIGGER audit … EXECUTE FUNCTION f('hush')"),))
    told = [told for _, told in _statements(ITEM, before, Given("job", (), (), ()), set())]
    assert len(told) == 2 and all(told) and "hush" not in "".join(told) and "audit" in told[1]
