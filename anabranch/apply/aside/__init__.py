"""Rows that the target refuses and that are set aside while the rest goes on (K26).

`setting_aside.py` which may be, and what may not be applied past them · `aside_values.py` their values, and images that have
to do with them · `release.py` releasing and discarding them between two epochs.
"""
