"""PostgreSQL, in both roles: `source/` and `target/` are packages, the files beside them are what both ends share."""
