"""What every connector must do, role by role: plain functions over a subject, run by tests on each database.

reader.py asks a LogReader, snapshot.py a SnapshotReader, writer.py a target's Writer and Loader. Each has CHECKS: the
functions in their order. The `memory` twin passes all of them; a database that cannot says so in its tests, by name.
"""
