"""Check of the sessions that the server and the account let the job open. Reads only."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.mysql.room import rooms
from anabranch.connectors.mysql.source.preflight_facts import Live
from anabranch.model.checks import CheckResult
from anabranch.model.room import judged

# Beside those of a load's pieces: capture's two, load's own with its lock or watermark, that of `run`, and one that asks who is
# in the way.
OUR_CONNECTIONS = 6


def check_connections(live: Live) -> Iterator[CheckResult]:
    parallel = int(live.context.user_choices.get("load.parallel") or 4)
    wanted = OUR_CONNECTIONS + parallel
    found = list(rooms(live.connection, live.variables, live.family, live.version, wanted))
    yield from judged(found, "source", OUR_CONNECTIONS, parallel)
