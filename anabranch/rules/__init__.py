"""The job's choice of what is replicated and how it looks at the target: rule sets (`rule_set.py`) and the SQL
conditions in them (`expressions.py`). Dialects of single databases live in `connectors/<db>/source/statements.py`.
"""
