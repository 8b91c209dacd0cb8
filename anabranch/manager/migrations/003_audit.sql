CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    how TEXT NOT NULL,
    place TEXT NOT NULL,
    action TEXT NOT NULL,
    job TEXT,
    before TEXT,
    after TEXT
);
CREATE INDEX IF NOT EXISTS audit_by_job ON audit (job, id);
