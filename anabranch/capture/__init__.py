"""The engine from log to trail: one process, one log connection, no JVM.

`run.py` the loop · `begin.py` first position and definitions · `definitions.py` what statements and requests do to the
tables in force. Knows no vendor and no target.
"""
