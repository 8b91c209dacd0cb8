CREATE TABLE IF NOT EXISTS statistic_folded (
    step INTEGER PRIMARY KEY,
    up_to INTEGER NOT NULL
);
