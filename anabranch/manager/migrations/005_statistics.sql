CREATE TABLE IF NOT EXISTS statistic_job (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS statistic (
    step INTEGER NOT NULL,
    job INTEGER NOT NULL REFERENCES statistic_job (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    state INTEGER,
    lag REAL,
    lag_most REAL,
    changes REAL,
    changes_most REAL,
    rows REAL,
    rows_most REAL,
    PRIMARY KEY (step, job, at)
) WITHOUT ROWID;
