"""The torture kit: seeded histories against a real pair of databases, faults inside, and a checker that trusts none of us.

What lives here: histories and their model, the source's sessions, what the target shows, the verdict. What does not: the
faults' own means (`testing/faults.py`, `anabranch/failpoints.py`).
"""
