"""Rows that the target refuses and that are set aside while the rest goes on (K26).

`set_row_aside.py` setting one aside · `permitted.py` which changes may be set aside, and which may not be applied
after them · `aside_values.py` the values of such rows, and the images that concern them · `release.py` releasing and
discarding them between two epochs. That the target refuses a row is found in `apply/row_by_row.py`; while a table is
loaded: `load/asides.py`.
"""
