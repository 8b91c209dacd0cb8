"""Public test kit: private database servers, found or fetched, and databases on them.

`servers.py` starts and stops servers, `databases.py` makes databases on them, `packages.py` finds or fetches the
software. The demo and the test suite both stand on it. What does not live here: anything a job needs in production.
"""
