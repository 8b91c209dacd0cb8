"""Names of an owner's sessions at a MySQL or MariaDB, which are names of locks, too."""

from __future__ import annotations

import pytest

from anabranch.connectors.mysql.target.ownership import MOST_APPLIERS, applier_name
from anabranch.connectors.mysql.target.session import MOST_LOCK_NAME, session_name
from anabranch.model.cutover import OWNER


@pytest.mark.parametrize("job", ["shop", "j" * 63, "größe"])
@pytest.mark.parametrize("owner", ["4f" * 16, f"{OWNER}{'4f' * 16}"])
def test_every_name_is_one_that_a_lock_may_have_and_none_is_anothers(job: str, owner: str) -> None:
    names = [session_name(job, owner), *(applier_name(job, owner, number) for number in range(MOST_APPLIERS))]
    assert max(map(len, names)) <= MOST_LOCK_NAME
    assert len(set(names)) == len(names) == MOST_APPLIERS + 1
