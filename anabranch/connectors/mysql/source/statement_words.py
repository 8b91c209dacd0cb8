"""The words by which statements of a MySQL's log are told apart.

What does not live here: reading a statement (statements.py).
"""

from __future__ import annotations

from anabranch.rows.log_items import StatementKind

# Statements that change no row of a base table, or whose changes are rows in the log.
HARMLESS = frozenset(
    """ANALYZE BEGIN CACHE CHANGE CHECK CHECKSUM CLONE COMMIT DEALLOCATE DESC DESCRIBE EXECUTE EXPLAIN FLUSH GRANT HANDLER
    HELP INSTALL KILL LOCK OPTIMIZE PREPARE PURGE RELEASE REPAIR RESET RESIGNAL RESTART REVOKE ROLLBACK SAVEPOINT SET
    SHOW SHUTDOWN SIGNAL START STOP UNINSTALL UNLOCK USE""".split()  # noqa: SIM905 - a table of words
)
DATA = frozenset(("CALL", "DELETE", "DO", "INSERT", "LOAD", "REPLACE", "SELECT", "UPDATE", "VALUES", "WITH"))
# What CREATE, ALTER, DROP and RENAME may be about; the first of these words decides.
OBJECTS = frozenset(
    """DATABASE EVENT FUNCTION INDEX INSTANCE LOGFILE PACKAGE PROCEDURE RESOURCE ROLE SCHEMA SEQUENCE SERVER SPATIAL
    TABLE TABLES TABLESPACE TRIGGER UNDO USER VIEW""".split()  # noqa: SIM905 - a table of words
)
# https://mariadb.com/kb/en/sequence-functions/: the only functions that are logged and change nothing of ours
SEQUENCE_FUNCTIONS = frozenset(("SETVAL", "NEXTVAL", "LASTVAL", "NEXT", "PREVIOUS"))
EMPTIED_BY_RESTART = "MEMORY"  # https://dev.mysql.com/doc/refman/8.0/en/replication-features-memory.html
VANISHING = frozenset(("DROP", "TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT", "CONVERT"))  # … PARTITION
# Clauses of ALTER TABLE (first words) that leave columns, keys and values as they are. ADD, DROP, RENAME and WITH are
# looked at further; any other clause may change something.
# https://dev.mysql.com/doc/refman/8.0/en/alter-table.html · https://mariadb.com/kb/en/alter-table/
KEEPING = frozenset(
    """ALGORITHM ALTER ANALYZE AUTOEXTEND_SIZE AUTO_INCREMENT AVG_ROW_LENGTH CHARACTER CHARSET CHECK CHECKSUM COALESCE COLLATE
    COMMENT COMPRESSION DATA DEFAULT DELAY_KEY_WRITE DISABLE ENABLE ENCRYPTED ENCRYPTION ENCRYPTION_KEY_ID ENGINE
    ENGINE_ATTRIBUTE FORCE INDEX KEY_BLOCK_SIZE LOCK MAX_ROWS MIN_ROWS NOWAIT OPTIMIZE ORDER PACK_KEYS PAGE_CHECKSUM
    PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL PARTITION REBUILD REMOVE REORGANIZE REPAIR ROW_FORMAT SECONDARY_ENGINE
    SECONDARY_ENGINE_ATTRIBUTE SECONDARY_LOAD SECONDARY_UNLOAD STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES
    TABLESPACE TRANSACTIONAL WAIT""".split()  # noqa: SIM905 - a table of words
)
KEEPING_WITH = {
    "ADD": frozenset(("CHECK", "FULLTEXT", "INDEX", "KEY", "PARTITION", "SPATIAL", "UNIQUE")),
    "DROP": frozenset(("CHECK", "CONSTRAINT", "FOREIGN", "INDEX", "KEY")),
    "RENAME": frozenset(("INDEX", "KEY")),
    "WITH": frozenset(("VALIDATION",)),
    "WITHOUT": frozenset(("VALIDATION",)),
}
CONSTRAINTS = frozenset(("CHECK", "FOREIGN", "PRIMARY", "UNIQUE"))
ACTING = frozenset(("CASCADE", "SET"))  # behind ON DELETE and ON UPDATE: a key that does more than refuse
ENGINES = {"HEAP": "MEMORY", "INNOBASE": "INNODB"}  # other names of the same
BEFORE_TABLE = frozenset(("FROM", "JOIN", "STRAIGHT_JOIN", "INTO", "UPDATE", "USING", "TABLE"))
MODIFIERS = frozenset(("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE"))
DEFINES = frozenset(StatementKind) - {StatementKind.DATA, StatementKind.HARMLESS, StatementKind.UNKNOWN}
