-- makes: anabranch.meta.migrations
-- What has been carried out here: number, stage, name, release and time of each migration. It goes with the table, also where
-- a release drops the schema that does not know it.

ALTER TABLE anabranch.meta ADD COLUMN migrations jsonb NOT NULL DEFAULT '[]';
