"""PostgreSQL, in both roles: the descriptor, without a driver. `source/` and `target/` are packages, the files beside them are
what both ends share."""

from __future__ import annotations

from anabranch.databases import SOURCE, SSL_FILES, TARGET, Database

# Both vocabularies are understood: its own, and that of the other databases.
SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
SSL_MODES_ELSEWHERE = ("disabled", "preferred", "required", "verify_ca", "verify_identity")

# What libpq calls the server that can be written: https://www.postgresql.org/docs/current/libpq-connect.html
ROLE = "target_session_attrs"
PRIMARY, WRITABLE = "primary", "read-write"

DATABASE = Database(
    name="postgresql",
    title="PostgreSQL",
    port=5432,
    roles=(SOURCE, TARGET),
    nicknames=("postgres", "pg", "psql", "pgsql"),
    url_options=(*SSL_FILES, ROLE),
    option_values={ROLE: (PRIMARY, WRITABLE)},
    has_standbys=True,
    ssl_modes=(*SSL_MODES, *SSL_MODES_ELSEWHERE),
    has_databases=True,
    extra="postgresql",
    options={
        SOURCE: "anabranch.connectors.postgresql.source.options:PostgresSourceOptions",
        TARGET: "anabranch.connectors.postgresql.target.options:PostgresTargetOptions",
    },
)
