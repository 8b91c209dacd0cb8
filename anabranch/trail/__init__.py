"""The durable queue of committed transactions between capture and apply: an append-only directory of segments.

One writer (`writer.py`), many readers in other processes (`reader.py`). What lies in the directory:

    trail.json                      job, source identity, format version (`identity.py`)
    lock                            held by the writer (`lock.py`)
    published                       where the readable part ends (`published.py`)
    history                         table definitions and parked tables (`history.py`)
    00000001-0001-1.segment         frames as captured (`format.py`, `segment.py`); `.packed` = rewritten (`pack.py`)
    readers/  retention.json        registered readers and what may be dropped (`retention.py`)
    check_requests/                 questions of who verifies where the trail is applied (`checks.py`)
    requests/  load_requests/       tables somebody wants brought in, or loaded again (`requests.py`)
    load/  loaded/                  rows of a load between two jobs, and who has them (`load_readers.py`)

Nothing here knows a database or Spark.
"""
