"""Share what the targets that speak SQL do alike, so that it is written once: pieces of a net change, migrations, findings.

A file here has no driver and no statement of a server: those are the database's own, which call down to here. What only one
database does, or each does in its own way, does not live here.
"""
