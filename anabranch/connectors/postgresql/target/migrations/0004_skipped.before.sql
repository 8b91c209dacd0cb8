-- makes: anabranch.skipped
-- Transactions that a person has told a job to leave out.

CREATE TABLE anabranch.skipped (
    job         text   NOT NULL,
    sequence    bigint NOT NULL,
    position    text   NOT NULL,
    commit_time bigint NOT NULL,
    changes     json   NOT NULL,
    asked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job, sequence)
);
