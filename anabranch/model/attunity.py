"""Attunity's tables beside change tables, as values: what a row of each says. Fields are called as the columns.

What does not live here: options of the configuration row (`attunity_options.py`), statements (`connectors/sql/attunity.py`),
what a job's state is called there (`job/attunity_state.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

ERROR, INFO, TRACE = "ERROR", "INFO", "TRACE"  # types of trace rows
DATAERROR, CONVERT = "DATAERROR", "CONVERT-ERROR"  # status and sub-status of a trace row about a value


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """The row of `cdc.xdbcdc_config`. `instances`: names of the capture instances that have not ended, which are counted by its
    version, too. `has_password`: somebody has put one there; nobody reads it."""

    connect_string: str
    username: str
    transaction_staging_timeout: int
    memory_limit: int
    options: str = ""
    version: int = 1
    use_windows_authentication: bool = False
    has_password: bool = False
    instances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """State of a service, in Attunity's words. `active` with `error`: it recovers by itself; else it does not."""

    status: str
    sub_status: str = ""
    active: bool = True
    error: bool = False
    status_message: str = ""

    @property
    def type(self) -> str:
        return ERROR if self.error else INFO


@dataclass(frozen=True, slots=True)
class Places:
    """Change numbers, which are places in the source's log as text; NULL where one is not known. `head`: up to where the log is
    read, `tail`: from where a start would read it again, `current`: its end."""

    head: str | None = None
    tail: str | None = None
    current: str | None = None


@dataclass(frozen=True, slots=True)
class StateRow:
    """Row of `cdc.xdbcdc_state`, as far as the service writes it. What an epoch has written it counts there itself."""

    condition: Condition
    node: str
    last_change: datetime | None
    places: Places
    software_version: str
    read_changes: int
    staged_transactions: int


@dataclass(frozen=True, slots=True)
class KnownState:
    """Facts that the tables had before: the status of the row, whether it says that the service is active, and when it said so
    last; what epochs have counted; status, sub-status and message of the newest row of the trace, and of the newest one about a
    value."""

    status: str
    active: bool
    timestamp: datetime | None
    completed_transactions: int
    written_changes: int
    traced: tuple[str, str] | None
    traced_value: str | None


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A row of `cdc.xdbcdc_trace`; its time is when it is written."""

    type: str
    status: str
    sub_status: str
    status_message: str
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class StagedRow:
    """A piece of a transaction that is open at the source, and waits outside of memory; `start` and `end`: its place in the
    source's log."""

    transaction_id: str
    seq_num: int
    start: str
    end: str
