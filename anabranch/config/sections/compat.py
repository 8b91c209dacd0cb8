"""`[compat]` of the job file."""

from __future__ import annotations

from anabranch.config.section import Section


class Compat(Section):
    """Show a job to programs that were made for another product ([how](../howto/coming-from-exbase.md))."""

    exbase: bool = False
    """The target has exBase's table `kafkaoffset`, as a view over the state: `public.kafkaoffset` of a PostgreSQL, at a MySQL
    or MariaDB in the database that is named as the job's user. Something else of that name stays, and preflight fails."""
    attunity: bool = False
    """A target with `form = "change_tables"` has Attunity's tables beside them, in schema `cdc`: `xdbcdc_config`,
    `xdbcdc_state`, `xdbcdc_trace`, `xdbcdc_staged_transactions` ([how](../howto/coming-from-attunity.md))."""
