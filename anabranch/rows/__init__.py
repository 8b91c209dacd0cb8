"""Rows as columns: what the log gives and the trail holds (`chunk.py`), how a list of values becomes an Arrow array
(`arrow.py`, `builder.py`), the text form of values (`lines.py`), and the net effect of many changes (`net.py`).

Nothing here knows a database or a file.
"""
