-- makes: anabranch.trace
-- What happened to jobs.

CREATE TABLE anabranch.trace (
    job       text NOT NULL,
    id        text NOT NULL,
    at        timestamptz NOT NULL,
    level     text NOT NULL,
    event     text NOT NULL,
    task      text NOT NULL,
    host      text NOT NULL,
    pid       integer NOT NULL,
    state     text,
    sub_state text,
    code      text,
    side      text,
    message   text,
    facts     json,
    PRIMARY KEY (job, id)
);
