"""The support bundle: one archive of what is known of a job, without secrets and without values of rows.

`pieces.py` gathers, `secrets.py`, `cutting.py` and `shown.py` take out what nobody else may see, `archive.py` writes.
"""
