CREATE TABLE IF NOT EXISTS user (
    name TEXT PRIMARY KEY,
    password TEXT NOT NULL,
    role TEXT NOT NULL,
    jobs TEXT NOT NULL,
    must_change INTEGER NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS token (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    role TEXT NOT NULL,
    jobs TEXT NOT NULL,
    created TEXT NOT NULL,
    created_by TEXT NOT NULL,
    expires TEXT,
    revoked TEXT
);
CREATE TABLE IF NOT EXISTS session (
    digest TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES user (name) ON DELETE CASCADE,
    csrf TEXT NOT NULL,
    created TEXT NOT NULL,
    seen TEXT NOT NULL
);
