"""The demo: the whole product on two private servers, from nothing to verified, leaving nothing running.

run.py tells the story in order; place.py owns the directory; shop.py (with shop.sql) makes the source's database,
writer.py keeps it lively; pipeline.py runs the job; latency.py measures; summary.py is what is printed at the end. What
does not live here: starting servers (`testing/`), anything of the product itself.
"""

from __future__ import annotations

from anabranch.demo.run import run_demo

__all__ = ["run_demo"]
