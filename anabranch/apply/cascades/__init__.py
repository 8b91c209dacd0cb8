"""Effects of the source's foreign keys that its log does not show (K1): carried out by apply, at the place of the
parent's change.

`cascade.py` changes of parents, and what they do to children as sets · `effect.py` which tables a change reaches ·
`parents.py`, `arriving_children.py`, `cuts.py` where an epoch has to be cut because of it · `takeovers.py` parents that
took over another one's value inside a load's window · `computed.py` computed columns of children.
"""
