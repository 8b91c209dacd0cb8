"""The reference page of what each server's errors mean, from the tables of the connectors."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.mysql import errors as mysql
from anabranch.connectors.mysql.target import errors as mysql_target
from anabranch.connectors.postgresql import errors as postgresql
from anabranch.connectors.postgresql.errors import Meaning
from anabranch.errors import AnabranchError

# What is done about an error of a class, while the job runs: in words here, done where `errors.Retry` is asked.
AT_THE_TARGET = {
    Meaning.BUSY: (
        "`TargetBusy`",
        "The transaction is gone, nothing of it is at the target. The same epoch again after 0.2 s, then with growing pauses, "
        "10 s at most. After five minutes and ten tries without one commit, or as "
        "[`[retry]`](../howto/how-long-to-wait.md) says, apply ends with 6."
        " Under `run` without `--until-caught-up` there is no limit.",
    ),
    Meaning.AWAY: (
        "`TargetUnavailable`",
        "The same over a new connection. Whether a COMMIT without an answer was done is read from the checkpoint row.",
    ),
    Meaning.FULL: (
        "`TargetFull`",
        "The same for as long as it takes: the job goes on when there is room. Capture goes on meanwhile.",
    ),
    Meaning.CONFLICT: (
        "`RowRefused`",
        "The epoch is rolled back and tried in halves, until the few source transactions around the conflict go row by row. "
        "What fails there too ends apply with 6 and the row's key; the load ends at once.",
    ),
    Meaning.REFUSED: (
        "`TargetError`",
        "Ends with 6: a person has to change something, then a start goes on from there.",
    ),
}
AT_THE_SOURCE = {
    "SourceBusy": "Tried again like `SourceUnavailable`; a load that has only begun, for as long as "
    "`[retry.source] lock_s` says.",
    "SourceUnavailable": "Capture opens the log again where the trail ends, each second, for five minutes; the load reads "
    "chunks again that were not finished, until none has ended for five minutes. Then 5. "
    "[`[retry]`](../howto/how-long-to-wait.md) says otherwise.",
    "SourceError": "Ends with 5: a person has to change something, then a start goes on from there.",
    "SchemaError": "Ends with 5. The table parks when capture comes to the statement that changed it.",
    "LogLost": "Ends with 5: what the trail needs is gone at the source.",
}


def errors_by_server(generated: str) -> Iterator[str]:
    yield "# Errors by server"
    yield ""
    yield generated
    yield "What the job makes of a server's error. `status` says `waiting` and what for as long as apply or the load waits."
    yield "An end that cannot be reached at the start ends the command at once. What else can go wrong: [errors](errors.md)."
    yield ""
    yield "## PostgreSQL, the target"
    yield ""
    yield "| class | raised as | what the job does |"
    yield "|---|---|---|"
    yield from (f"| {one.name.lower()} | {name} | {text} |" for one, (name, text) in AT_THE_TARGET.items())
    yield ""
    yield "The longest code that fits counts; two or four characters stand for all codes that begin so. What is not listed is"
    yield "*refused*. [Codes](https://www.postgresql.org/docs/current/errcodes-appendix.html)."
    yield ""
    yield "| SQLSTATE | what it is | class | what to do |"
    yield "|---|---|---|---|"
    for code, known in postgresql.MEANINGS.items():
        yield f"| `{code}` | {known.what} | {known.meaning.name.lower()} | {_cell(known.hint)} |"
    yield ""
    yield "A connection that is refused has no code; these words of its message stand for one:"
    yield ""
    yield "| words | SQLSTATE |"
    yield "|---|---|"
    yield from (
        f"| {words} | `{code}` |" for words, code in postgresql.REFUSALS.items() if code not in ("TLS", "POOLER")
    )
    yield ""
    yield from _mysql_target()
    yield "## MySQL and MariaDB, the source"
    yield ""
    yield "| class | what the job does |"
    yield "|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in AT_THE_SOURCE.items())
    yield ""
    yield "What is not listed is a `SourceError`. [MySQL's numbers](https://dev.mysql.com/doc/mysql-errors/8.0/en/),"
    yield "[MariaDB's](https://mariadb.com/kb/en/mariadb-error-code-reference/)."
    yield ""
    yield "| number | what it is | class | what to do |"
    yield "|---|---|---|---|"
    for number, known in mysql.MEANING.items():
        yield _row(str(number), known)
        yield from (_row(f"{number}, “{text}”", one) for text, one in mysql.BY_TEXT.get(number, ()))
    yield ""


def _mysql_target() -> Iterator[str]:
    yield "## MySQL and MariaDB, the target"
    yield ""
    yield "The classes are those of PostgreSQL, and the job does the same. What is not listed is *refused*."
    yield "[MySQL's numbers](https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html),"
    yield "[MariaDB's](https://mariadb.com/kb/en/mariadb-error-code-reference/)."
    yield ""
    yield "| number | what it is | class | what to do |"
    yield "|---|---|---|---|"
    for number, known in mysql_target.MEANINGS.items():
        rows = [(str(number), known)]
        rows += [(f"{number}, “{text}”", one) for text, one in mysql_target.BY_TEXT.get(number, ())]
        yield from (f"| {name} | {one.what} | {one.meaning.name.lower()} | {_cell(one.hint)} |" for name, one in rows)
    yield ""


def _row(number: str, known: mysql.KnownError) -> str:
    return f"| {number} | {known.what} | `{known.error.__name__}` | {_cell(known.hint or _default(known.error))} |"


def _default(kind: type[AnabranchError]) -> str:
    return kind.default_hint


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
