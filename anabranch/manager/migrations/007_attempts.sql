CREATE TABLE IF NOT EXISTS attempt (
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    failures INTEGER NOT NULL,
    last TEXT NOT NULL,
    PRIMARY KEY (kind, digest)
);
