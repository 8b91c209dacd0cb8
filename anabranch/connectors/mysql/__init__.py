"""MySQL, in both roles: the descriptor, without a driver. `source/` and `target/` are packages, the files beside them are of a
server's connections, types and releases, whatever its role."""

from __future__ import annotations

from anabranch.databases import SOURCE, TARGET, Database

DATABASE = Database(
    name="mysql",
    title="MySQL",
    port=3306,
    roles=(SOURCE, TARGET),
    ssl_modes=("disabled", "preferred", "required", "verify_ca", "verify_identity"),
    has_standbys=True,
    empties_by="delete",  # TRUNCATE commits by itself: https://dev.mysql.com/doc/refman/8.0/en/implicit-commit.html
    extra="mysql",
    options={
        SOURCE: "anabranch.connectors.mysql.source.options:MysqlSourceOptions",
        TARGET: "anabranch.connectors.mysql.target.options:MysqlTargetOptions",
    },
)
