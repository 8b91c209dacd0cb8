"""Terms (model/term.py) as SQL of PostgreSQL.

What does not live here: which terms a source makes of its conditions, where they stand in a definition (ddl.py).
https://www.postgresql.org/docs/current/functions.html
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.connectors.postgresql.quoting import literal
from anabranch.connectors.sql.terms import TermForms, written
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.term import Term

UUID_SINCE = 130000  # gen_random_uuid: https://www.postgresql.org/docs/release/13.0/
# The source computes in its widest type: so do we.
FORMS = TermForms(literal, {"characters": "char_length({})", "bytes": "octet_length({})"}, {}, computed="{}::numeric")


def condition(term: Term, names: Mapping[str, str]) -> str:
    """Write a term as SQL. `names`: source column -> column as SQL. Raises KeyError with the name of one that is missing."""
    return written(term, names, FORMS)


def default(term: Term, type: LogicalType, version: int) -> str | None:
    """Write a default's expression; None for one that a server of this version does not have, or of a type that the job
    chose.
    """
    if type.target:
        return None
    if term.op == "now":
        function = "CURRENT_TIMESTAMP" if type.kind is Kind.INSTANT else "LOCALTIMESTAMP"
        return f"{function}({term.text})"
    if term.op == "today":
        return "CURRENT_DATE"
    if term.op == "uuid":
        return "gen_random_uuid()::text" if version >= UUID_SINCE else None
    return literal(term.text) if term.op == "text" and "\x00" not in term.text else None
