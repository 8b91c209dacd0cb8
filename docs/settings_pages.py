"""The page of session settings: what anabranch does with each setting that an administrator can give to new sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.connectors.mysql import settings as mysql
from anabranch.connectors.mysql.target import settings as mysql_target
from anabranch.connectors.postgresql import settings as postgresql

SOURCE = "anabranch/connectors/mysql/settings.py, mysql/target/settings.py and postgresql/settings.py"
_HEAD = """# Session settings

A server gives new sessions the settings that an administrator chose: by `SET GLOBAL`, `ALTER ROLE … SET`, `ALTER
DATABASE … SET`, or in its configuration. Some of them would change what the statements of anabranch mean, how much
they read, or end them. So every connection of anabranch, at both ends and for every part of a job, pins these
settings when it is made. This page decides every setting of the releases that `make test` uses; a test fails where
a server has one that is not here.
"""


def settings_page() -> str:
    return "\n".join(["", _HEAD, *_postgresql(), *_mysql()])


def _postgresql() -> Iterator[str]:
    yield "## PostgreSQL\n\n| pinned | value | since | why |\n|---|---|---|---|"
    for name, pin in postgresql.PINNED.items():
        since = f"{pin.since // 10_000}" if pin.since > postgresql.FIRST else ""
        yield f"| `{name}` | `{pin.value}` | {since} | {pin.why} |"
    for name, pin in postgresql.WALSENDER.items():
        yield f"| `{name}` | `{pin.value}`, for the log | {pin.since // 10_000} | {pin.why} |"
    yield "\nOnly a superuser may set these. Where our user may, they are pinned; else another value is refused by name.\n"
    yield "| setting | needed | any other value |\n|---|---|---|"
    for name, demand in postgresql.DEMANDED.items():
        yield f"| `{name}` | `{demand.value}` | {demand.why} |"
    yield from _left(postgresql.LEFT)


def _mysql() -> Iterator[str]:
    yield "## MySQL and MariaDB\n\nA variable that the server does not have is not sent.\n"
    yield "| pinned | value | why |\n|---|---|---|"
    for name, pin in mysql.PINNED.items():
        yield f"| `{name}` | `{pin.value}` | {pin.why} |"
    yield from _left(mysql.LEFT)
    yield "### At a target\n\nA session that writes has the same settings but for these.\n"
    yield "| pinned | value | why |\n|---|---|---|"
    for name, pin in mysql_target.WRITING.items():
        yield f"| `{name}` | `{pin.value}` | {pin.why} |"
    yield "| `foreign_key_checks` | `0` or `1` | as the job wants its foreign keys: off where the target's tables have some |"
    yield from _left(mysql_target.LEFT)


def _left(left: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    yield "\n| left as the server has it, because | settings |\n|---|---|"
    for why, names in left.items():
        yield f"| {why} | {', '.join(f'`{name}`' for name in names)} |"
    yield ""
