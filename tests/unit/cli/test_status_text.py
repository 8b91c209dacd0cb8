"""`status` for people, from the value that `--json` prints."""

from __future__ import annotations

import click
import pytest

from anabranch.cli.status import lines

FOUND = {
    "version": 1,
    "job": "shop",
    "phase": "waiting",
    "detail": "disk full",
    "parts": [
        {"name": "capture", "pid": 12, "host": "db1", "how": "decoder native"},
        {"name": "apply", "pid": 13, "host": "db1"},
    ],
    "positions": {
        "read": {"text": "9@bin.1:9", "commit_time": None},
        "written": {"text": "8@bin.1:8", "commit_time": "2026-01-01T00:00:00.000000Z"},
        "source_end": None,
    },
    "targets": [
        {
            "name": "postgresql://app@h:5432/d",
            "applied": {"text": "7@bin.1:7", "commit_time": "2026-01-01T00:00:00.000000Z"},
            "lag": {
                "seconds": 3725.4,
                "bytes": 1_234_567,
                "stages": [
                    {"stage": "source_not_read", "seconds": None, "bytes": 0, "why": None},
                    {"stage": "written_not_planned", "seconds": 3625.4, "bytes": 1_000_000, "why": None},
                    {"stage": "applying", "seconds": 0.05, "bytes": 0, "why": None},
                    {"stage": "waiting_for_locks", "seconds": 100.0, "bytes": 234_567, "why": "apply waits"},
                ],
                "culprit": {"kind": "lock", "text": "apply waits for a lock on t", "since": "2026-01-01T00:00:00Z"},
                "eta": {"at": "2026-01-01T01:00:00Z", "seconds": 60.0, "error": 0.123},
            },
            "slow_epochs": {"count": 2, "epochs": 1500, "reason": "shop.a: why", "at": "2026-01-01T00:00:00.500Z"},
            "tables": [
                {
                    "source": "shop.orders",
                    "target": "public.orders",
                    "state": "streaming",
                    "reason": "",
                    "rows_loaded": 1234567,
                    "changes_applied": 0,
                    "set_aside": 1200,
                },
                {
                    "source": "shop.a",
                    "target": "public.a",
                    "state": "parked",
                    "reason": "ALTER TABLE a DROP x: run anabranch load JOB --table shop.a",
                    "rows_loaded": 5,
                    "changes_applied": 12,
                },
            ],
        }
    ],
    "prepared": [{"xid": "X'61',X'',1", "since": "2026-01-01T00:00:00.000000Z", "rows": 12345}],
    "last_error": {"part": "apply", "exit_code": 6, "message": "the target went away", "at": "2026-01-01T00:00:01Z"},
}
EXPECTED = """\
job         shop
phase       waiting: disk full
parts       capture (pid 12 on db1, decoder native), apply (pid 13 on db1)
read        9@bin.1:9
written     8@bin.1:8  committed 2026-01-01T00:00:00.000000Z
source end  -
prepared    X'61',X'',1  12,345 rows, since 2026-01-01T00:00:00.000000Z
target      postgresql://app@h:5432/d
applied     7@bin.1:7  committed 2026-01-01T00:00:00.000000Z
lag         1 h 2 min, 1.2 MB
behind      written not planned 1 h 0 min, 1.0 MB; waiting for locks 100.0 s, 234.6 kB
caught up   in about 60.0 s, at 2026-01-01T01:00:00Z, ± 12 % so far
because     apply waits for a lock on t (since 2026-01-01T00:00:00Z)
slow epochs 2 of 1,500, the last at 2026-01-01T00:00:00.500Z: shop.a: why

TABLE        TARGET         STATE      ROWS LOADED  CHANGES APPLIED
shop.a       public.a       parked               5               12
    ALTER TABLE a DROP x: run anabranch load JOB --table shop.a
shop.orders  public.orders  streaming    1,234,567                0
    1,200 row changes set aside: anabranch parked show JOB shop.orders

last error  2026-01-01T00:00:01Z apply: the target went away
"""


def test_the_whole_picture() -> None:
    assert click.unstyle("\n".join(lines(FOUND)) + "\n") == EXPECTED


def test_what_a_person_has_to_decide_stands_above_the_tables_once() -> None:
    change = {"number": 3, "table": "shop.b", "statement": "ALTER TABLE b\n  DROP x", "since": "2026-01-01T00:00:00Z"}
    silent = {**change, "number": 2, "table": "shop.d", "statement": ""}
    known = {"target": "t", "state": "parked", "reason": "", "rows_loaded": 0, "changes_applied": 0}
    tables = [{**known, "source": f"shop.{name}", "undecided": change} for name in "abc"]
    tables.append({**known, "source": "shop.d", "undecided": silent})
    target = {**FOUND["targets"][0], "tables": tables}
    told = [click.unstyle(line) for line in lines({**FOUND, "targets": [target]}) if line.startswith("to decide")]
    assert told == [
        "to decide   anabranch ddl approve JOB 2  shop.d, since 2026-01-01T00:00:00Z",
        "to decide   anabranch ddl approve JOB 3  shop.b, with shop.a, shop.c, since 2026-01-01T00:00:00Z: "
        "ALTER TABLE b DROP x",
    ]
    several = lines({**FOUND, "targets": [{**target, "name": "north", "url": "u", "last_error": None}]})
    assert any("approve JOB 2 --target north  shop.d" in line for line in several)


def test_a_job_that_never_ran() -> None:
    target = {"name": "t", "applied": None, "lag": {"seconds": None, "bytes": None}, "tables": []}
    empty = {
        **FOUND,
        "prepared": [],
        "phase": "stopped",
        "detail": "",
        "parts": [],
        "positions": {},
        "targets": [target],
        "last_error": None,
    }
    text = click.unstyle("\n".join(lines(empty)))
    assert "parts       none is running" in text
    assert "lag         unknown" in text


@pytest.mark.parametrize(
    ("lag", "text"),
    [
        ({"seconds": 0.0, "bytes": 0}, "0.0 s, 0 bytes"),
        ({"seconds": 119.94, "bytes": None}, "119.9 s"),
        ({"seconds": 121, "bytes": 999}, "2 min 1 s, 999 bytes"),
        ({"seconds": None, "bytes": 5_000_000_000_000}, "5000.0 GB"),
    ],
)
def test_lag(lag: dict[str, float | None], text: str) -> None:
    found = {**FOUND, "targets": [{**FOUND["targets"][0], "lag": lag}]}
    assert f"lag         {text}" in list(map(click.unstyle, lines(found)))
