-- makes: anabranch.verified
-- The last result of `verify --watch` for each table.

CREATE TABLE anabranch.verified (
    job          text,
    source_table text,
    verified_at  bigint NOT NULL,  -- microseconds since 1970 UTC, by the clock of who wrote it
    facts        jsonb  NOT NULL,
    PRIMARY KEY (job, source_table)
);
