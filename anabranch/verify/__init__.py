"""Engine: are both ends equal? Digests of all rows in parallel, then the rows that differ.

plan.py cuts both sides into pieces, canonical.py makes their text forms comparable, digest.py sums them up per bucket,
compare.py finds the rows of differing buckets, run.py is the driver, report.py the result.
"""
