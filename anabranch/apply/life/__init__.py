"""Changes of a table's state between two epochs, beside the stream.

`join.py` tables that join after their load, or are resumed · `taking_out.py` tables that are to be loaded again ·
`park.py` tables that are parked together · `reread.py` rows that a load's window could not complete · `repair.py` rows
that differ · `finish.py` indexes and foreign keys that are built once the target is consistent.
"""
