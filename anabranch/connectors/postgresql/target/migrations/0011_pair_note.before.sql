-- makes: anabranch.pair_note
-- Deletes that a job of a pair has applied here ('deleted'), until its twin has cleared them; ids of its twin's notes that it has
-- cleared ('cleared'). json: see conflict.

CREATE TABLE anabranch.pair_note (
    job          text NOT NULL,
    kind         text NOT NULL,
    id           text COLLATE "C" NOT NULL,
    target_table text,
    key          json,
    age          text,
    PRIMARY KEY (job, kind, id)
);
