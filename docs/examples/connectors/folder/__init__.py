"""A folder of files as a database: the smallest source that is one. Each file of its log is a committed transaction.

    tables.json      {"identity": "…", "tables": {"shop.item": {"columns": {"id": "int", "name": "text"}, "key": ["id"]}}}
    base.json        {"number": 0, "rows": {"shop.item": [{"id": "1", "name": "pen"}]}}: its tables before the log begins
    log/00000001     {"at": 1700000000000000, "changes": [{"table": "shop.item", "before": null, "after": {…}}]}

Who writes to it puts a file beside the log and renames it to the next number: then it is committed. `"truncate": "shop.item"`
in place of changes empties a table. What is older than `base.json` may be removed.
"""

from __future__ import annotations

from anabranch.databases import SOURCE, Database

DATABASE = Database(
    name="folder",
    title="folder",
    port=0,
    roles=(SOURCE,),
    url_options=(),
    needs_user=False,
    options={SOURCE: "anabranch.connectors.folder.source.options:FolderOptions"},
)
