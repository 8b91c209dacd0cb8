"""Engine: initial load. Chunks of tables go from source to target as Spark tasks; the target's ledger knows each.

plan.py cuts tables into chunks, copy.py is one chunk inside a task, handover.py what the stream needs to go on from
there, run.py the driver. The stream itself is apply/.
"""
