"""Do a table's messages go on behind a changed definition? Only asks: nothing is written or registered here.

What does not live here: which keys stay as they are (rows/messages/altered.py), what is asked in front of a job (preflight.py).
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.connectors.kafka.registry import Registry
from anabranch.connectors.kafka.target.registered import unfit
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.rows.altered import AlteredTable
from anabranch.rows.messages.altered import why_not_told
from anabranch.rows.messages.format import Format, Settings


def refuse_altered(altered: AlteredTable, settings: Settings, format: Format, registry: Registry | None) -> None:
    """Raise TargetError, for which the table is parked, where its messages cannot go on; TargetUnavailable where the registry
    does not say whether they can: a table that is parked does not come back when the registry does."""
    table = altered.table
    keyed = settings if registry is None else replace(settings, schema=True)  # keys begin with their schema's number
    why = why_not_told(altered, keyed) or "; ".join(format.check([table]))
    if not why and registry is not None:
        try:
            why = "; ".join(unfit(registry, settings, table))
        except TargetError as error:
            raise TargetUnavailable(error.message, hint=error.hint, table=str(table.source)) from error
    if why:
        raise TargetError(why, table=str(table.source))
