"""Runs where python-mysql-replication is installed, and nothing of ours: reads so many changes, prints what they cost as JSON.

`$BENCH_SETTINGS`: connection, schema, file, offset, changes."""

import json
import os
import time

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent


def main() -> None:
    settings = json.loads(os.environ["BENCH_SETTINGS"])
    stream = BinLogStreamReader(
        connection_settings=settings["connection"],
        server_id=7200,
        resume_stream=True,
        blocking=True,
        log_file=settings["file"],
        log_pos=settings["offset"],
        only_schemas=[settings["schema"]],
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    rows, begin, before = 0, 0.0, 0.0
    for event in stream:
        begin, before = (begin, before) if rows else (time.monotonic(), time.process_time())
        rows += len(event.rows)
        if rows >= settings["changes"]:
            break
    seconds, cpu = time.monotonic() - begin, time.process_time() - before
    with open("/proc/self/status") as status:
        [peak] = [line.split()[1] for line in status if line.startswith("VmHWM:")]
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu": cpu, "rss": int(peak) / 1024}))


if __name__ == "__main__":
    main()
