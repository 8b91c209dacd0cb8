"""Change tables at a MySQL or MariaDB: changes as rows, in the layout and with the functions of SQL Server's change data
capture.

`instances.py` creates them, `functions.py` and `procedures.py` have what reads them, `writer.py` appends, `checks.py` looks
whether that can be. What a row looks like is the same for every database (`rows/change_table.py`).
"""
