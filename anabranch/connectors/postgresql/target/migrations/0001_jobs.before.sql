-- makes: anabranch.meta
-- State of jobs at a PostgreSQL target. Truth stands here, next to the data it speaks of; every primary key starts with
-- the job. Written by store.py and apply.py (checkpoint, table_state) and load.py (table_state, load_chunk).

CREATE SCHEMA IF NOT EXISTS anabranch;

CREATE TABLE anabranch.meta (
    version integer NOT NULL
);

-- The job as last run, without secrets.
CREATE TABLE anabranch.job (
    job             text PRIMARY KEY,
    uuid            text,
    source_identity text,
    definition      json,                         -- json, not jsonb: the text is compared as it was written
    facts           jsonb NOT NULL DEFAULT '{}'
);

-- Where the target is, and who may move it (compare-and-set, the first statement of every epoch).
CREATE TABLE anabranch.checkpoint (
    job         text   NOT NULL,
    target      text   NOT NULL,
    owner       text   NOT NULL DEFAULT '',
    epoch       bigint NOT NULL DEFAULT 0,
    sequence    bigint NOT NULL,
    position    text   NOT NULL,                  -- the source's native position at `sequence`
    commit_time bigint NOT NULL DEFAULT 0,        -- microseconds since 1970 UTC, the source's clock
    PRIMARY KEY (job, target)
) WITH (fillfactor = 10);

CREATE TABLE anabranch.table_state (
    job             text    NOT NULL,
    source_table    text    NOT NULL,
    target_table    text    NOT NULL,
    generation      integer NOT NULL DEFAULT 0,
    state           text    NOT NULL CHECK (state IN ('pending', 'loading', 'streaming', 'parked')),
    low             text    NOT NULL DEFAULT '',
    high            text    NOT NULL DEFAULT '',
    reason          text    NOT NULL DEFAULT '',
    rows_loaded     bigint  NOT NULL DEFAULT 0,
    changes_applied bigint  NOT NULL DEFAULT 0,
    schema          jsonb,                        -- the source's definition that the load used
    facts           jsonb   NOT NULL DEFAULT '{}',
    PRIMARY KEY (job, source_table)
) WITH (fillfactor = 50);

CREATE TABLE anabranch.load_chunk (
    job          text    NOT NULL,
    source_table text    NOT NULL,
    generation   integer NOT NULL,
    number       integer NOT NULL,
    lower        text[],                          -- key values, exclusive; null = open
    upper        text[],                          -- inclusive
    rows         bigint,                          -- null until the chunk is done
    low          text,
    high         text,
    PRIMARY KEY (job, source_table, generation, number)
);

INSERT INTO anabranch.meta (version) VALUES (1);
