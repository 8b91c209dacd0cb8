"""What is replicated and how it looks at the target: rule sets (`rules.py`) and the SQL conditions in them
(`expressions.py`). Dialects of single databases live in `connectors/<db>/ddl.py`.
"""
