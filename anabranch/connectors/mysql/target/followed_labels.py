"""Labels that the source's types have got since, added where a row was refused for one.

What does not live here: which labels a column lacks, and the statements that add them (`labels.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anabranch.connectors.mysql.target import labels
from anabranch.contracts import Conflict, Needed
from anabranch.errors import Redefined, TargetBusy
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable


class FollowedLabels:
    """Follows the labels of one job's tables. `needed`: asks the source for the types of a table."""

    def __init__(self, endpoint: Endpoint, end_session: Callable[[], None]) -> None:
        """Follow none yet. `end_session`: ends the session that applies."""
        self._endpoint, self._end_session = endpoint, end_session
        self.needed: Needed | None = None
        self._not_added = set[str]()  # statements for labels that the server refuses
        self._tried: dict[TableId, dict[str, str]] = {}  # the enums of a table when a row was last refused for a label

    @contextmanager
    def known(self, table: TargetTable) -> Iterator[None]:
        """Add labels that a column lacks, where a row was refused for one. Our own session is ended before: an ALTER TABLE
        waits for whoever has read the table."""
        try:
            yield
        except Conflict as conflict:
            is_unknown = self.needed is not None and labels.may_be_unknown(conflict.what, table)
            found = self.needed(table.source) if is_unknown and self.needed else None
            if found is None:
                raise
            then, now = found
            if why := labels.renamed(then, now):
                raise Redefined(why, table=str(table.source)) from None
            self._follow(conflict, now, table)

    def _follow(self, conflict: Conflict, now: TableSchema, table: TargetTable) -> None:
        """Add what columns lack, and raise TargetBusy: once also where nothing lacks, because others may have added it since
        the row was staged. Else raises Conflict."""
        lacks, spelled = labels.lacking_now(self._endpoint, now, table)
        statements = {lack.statement for lack in lacks}
        is_tried = self._tried.get(table.target) == spelled
        if "" in statements or (is_tried and statements <= self._not_added):
            words = "; ".join([conflict.what, *(lack.words for lack in lacks)])
            raise Conflict(conflict.table, words, conflict.key, conflict.is_taken) from None
        self._tried[table.target] = spelled
        self._end_session()
        added = labels.add_labels(self._endpoint, [(now, table)]) if lacks else []
        self._not_added |= statements.difference(added)
        what = (
            f"columns lack labels that the source's types have got: {'; '.join(statements) or 'others have added them'}"
        )
        raise TargetBusy(what, table=str(table.source), hint="the change is tried again") from None
