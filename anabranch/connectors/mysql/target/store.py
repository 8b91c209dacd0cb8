"""State of jobs at a MySQL target: database `anabranch` (`migrate.py`), in parts over one connection.

What does not live here: the parts (`jobs.py`, `states.py`, `journal.py`, `aside.py`, `cutover_notes.py`, `verified.py`), the
checkpoint's compare-and-set (`apply.py`), the ledger of chunks (`load.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.connectors.mysql.target.aside import MysqlAsides
from anabranch.connectors.mysql.target.cutover_notes import MysqlCutovers
from anabranch.connectors.mysql.target.jobs import MysqlJobs
from anabranch.connectors.mysql.target.journal import MysqlJournal
from anabranch.connectors.mysql.target.migrate import migrate, shipped
from anabranch.connectors.mysql.target.progress_view import show
from anabranch.connectors.mysql.target.state_session import StateSession, only_one
from anabranch.connectors.mysql.target.states import MysqlTableStates
from anabranch.connectors.mysql.target.verified import MysqlVerified
from anabranch.connectors.sql.migrations import Migration
from anabranch.model.endpoint import Endpoint


class MysqlStore:
    """TargetStore of a MySQL or MariaDB.

    Delivery: what a call of any part wrote is committed when it returns."""

    def __init__(self, endpoint: Endpoint, migrations: Sequence[Migration] = ()) -> None:
        """Set up the store. `migrations`: in place of those of this release."""
        self._session, self._migrations = StateSession(endpoint), migrations or shipped()
        self.jobs = MysqlJobs(self._session, self._migrations)
        self.states = MysqlTableStates(self._session)
        self.journal = MysqlJournal(self._session)
        self.asides = MysqlAsides(self._session)
        self.cutovers = MysqlCutovers(self._session)
        self.verifications = MysqlVerified(self._session)

    def exists(self) -> bool:
        return self._session.is_there()

    def prepare(self) -> None:
        """Make the database and its tables, or bring those of an earlier release to this one. May run in several processes at
        once: the first does it, the others find it done."""
        with self._session("prepare the database anabranch") as connection, only_one(connection):
            migrate(connection, self._migrations)

    def show_progress(self) -> None:
        """Make `kafkaoffset` in the user's own database, as ShowsProgress has it."""
        with self._session("show progress as exBase does") as connection, only_one(connection):
            show(connection)

    def close(self) -> None:
        self._session.close()
