-- makes: anabranch.set_aside.unconverted
-- Columns of a change that is set aside whose values could not be converted, and what stands there.

ALTER TABLE anabranch.set_aside ADD COLUMN unconverted json NOT NULL DEFAULT '{}';
