-- makes: anabranch.ddl
-- What became of the source's changes of definitions: a row for each of its transactions and table.

CREATE TABLE anabranch.ddl (
    job          text   NOT NULL,
    number       bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    sequence     bigint NOT NULL,
    position     text   NOT NULL,
    commit_time  bigint NOT NULL,  -- microseconds since 1970 UTC, the source's clock
    source_table text   NOT NULL,
    target_table text   NOT NULL,
    statement    text   NOT NULL,
    source_user  text,
    setting      text   NOT NULL,
    action       text   NOT NULL,
    outcome      text   NOT NULL,
    why          text   NOT NULL,
    version      integer NOT NULL,  -- of the source's definition that the target's table has afterwards
    digest       text   NOT NULL,  -- of that definition
    by           text   NOT NULL,
    noted_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job, number),
    UNIQUE (job, source_table, sequence)
);
