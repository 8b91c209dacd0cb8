-- makes: anabranch.taken_off
-- Definitions of keys that a load has taken off its target tables, until they are back.

CREATE TABLE anabranch.taken_off (
    job          text,
    source_table text,
    kind         text,
    table_schema text,
    table_name   text,
    name         text,
    definition   text NOT NULL,
    PRIMARY KEY (job, source_table, kind, table_schema, table_name, name)
);
