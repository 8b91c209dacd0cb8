-- makes: anabranch.conflict
-- Disagreements that a policy has settled. json, not jsonb: that one refuses \u0000, which a source's text may hold.

CREATE TABLE anabranch.conflict (
    job          text   NOT NULL,
    number       bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    sequence     bigint NOT NULL,
    position     text   NOT NULL,
    commit_time  bigint NOT NULL,
    source_table text   NOT NULL,
    target_table text   NOT NULL,
    key          json   NOT NULL,
    operation    text   NOT NULL,
    kind         text   NOT NULL,
    policy       text   NOT NULL,
    decision     text   NOT NULL,
    before       json,
    after        json,
    found        json,
    noted_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job, number)
);
