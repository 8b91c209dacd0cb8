"""What the targets that speak SQL do alike, whatever their dialect: pieces of a net change, migrations of the state, findings.

A file here has no driver and no statement of a server: those are the database's own, which call down to here. What only one
database does, or each does in its own way, does not live here.
"""
