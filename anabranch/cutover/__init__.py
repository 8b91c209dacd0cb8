"""A cut-over: the source is fenced, the target brought to the fence, and handed to its users, in steps that survive a kill.

`machine.py` the steps, one after the other, and their end or their taking back · `steps.py` what each does · `following.py`
where the target is, and what the source took behind the fence · `fence.py` whether the fence is intact · `looking.py` what is
looked at before anything is done · `flip.py` the user's own command · `report.py` what a person reads of it.

What does not live here: what a cut-over is by its notes (model/cutover.py), how a source is fenced (its connector).
"""
