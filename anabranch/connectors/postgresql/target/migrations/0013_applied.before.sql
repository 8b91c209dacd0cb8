-- makes: anabranch.applied
-- Transactions of the source that are applied beyond the checkpoint ([apply] commit_order = "relaxed"). A release that does not
-- know this table would apply them again: whoever writes here first raises the version of the state to this number (migrations.py).

CREATE TABLE anabranch.applied (
    job      text   NOT NULL,
    target   text   NOT NULL,
    sequence bigint NOT NULL,
    position text   NOT NULL,
    PRIMARY KEY (job, target, sequence)
);
