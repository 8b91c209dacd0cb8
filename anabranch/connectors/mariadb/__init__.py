"""MariaDB, the younger of MySQL's family: only what differs from its elder is here."""
