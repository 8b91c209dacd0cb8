-- makes: anabranch.cutover
-- Notes of cut-overs, one before and one behind each step.

CREATE TABLE anabranch.cutover (
    job      text,
    number   bigint,
    step     text   NOT NULL,
    phase    text   NOT NULL,
    noted_at bigint NOT NULL,  -- microseconds since 1970 UTC, by the clock of who wrote it
    facts    jsonb  NOT NULL,
    PRIMARY KEY (job, number)
);
