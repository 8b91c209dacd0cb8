CREATE TABLE IF NOT EXISTS job (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    is_wanted INTEGER NOT NULL,
    since TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS job_version (
    job TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    at TEXT NOT NULL,
    by TEXT NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (job, version)
);
