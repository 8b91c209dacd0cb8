"""MySQL as a source (`source/`): the descriptor, without a driver. The files beside it are of a server's connections, types and
releases, whatever its role."""

from __future__ import annotations

from anabranch.databases import SOURCE, Database

DATABASE = Database(
    name="mysql",
    title="MySQL",
    port=3306,
    roles=(SOURCE,),
    ssl_modes=("disabled", "preferred", "required", "verify_ca", "verify_identity"),
    extra="mysql",
    options={SOURCE: "anabranch.connectors.mysql.source.options:MysqlSourceOptions"},
)
