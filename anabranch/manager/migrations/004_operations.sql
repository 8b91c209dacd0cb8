CREATE TABLE IF NOT EXISTS operation (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    verb TEXT NOT NULL,
    arguments TEXT NOT NULL,
    words TEXT NOT NULL,
    state TEXT NOT NULL,
    code INTEGER,
    asked TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    began TEXT,
    ended TEXT,
    cancelled_by TEXT,
    cut_stdout INTEGER NOT NULL DEFAULT 0,
    cut_stderr INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS operation_by_job ON operation (job, id);
CREATE INDEX IF NOT EXISTS operation_by_state ON operation (state, id);
