"""`state.db` in the job's home: what `status` shows beside the target's truth. It can be deleted at any time.

What does not live here: anything a restart depends on; that is at the target (schema `anabranch`) or in the trail
(K31).
"""

from __future__ import annotations

from anabranch.state.store import StateStore

__all__ = ["StateStore"]
