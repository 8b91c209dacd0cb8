-- makes: anabranch.set_aside
-- Row changes that are set aside. json, not jsonb: that one refuses \u0000, which a source's text may hold.

CREATE TABLE anabranch.set_aside (
    job          text   NOT NULL,
    number       bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    sequence     bigint NOT NULL,
    position     text   NOT NULL,
    commit_time  bigint NOT NULL,
    source_table text   NOT NULL,
    target_table text   NOT NULL,
    key          json   NOT NULL,
    operation    text   NOT NULL,
    before       json,
    after        json,
    reason       text   NOT NULL,
    keys_off     boolean NOT NULL,
    wish         text   NOT NULL DEFAULT '',
    discarded_at timestamptz,
    set_aside_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job, number)
);
