# Values that are kept beside their row: an update that leaves one as it was does not log it. `~` says so.

## the key
CREATE TABLE toasted (id int PRIMARY KEY, n int, big text);
ALTER TABLE toasted ALTER big SET STORAGE EXTERNAL;
INSERT INTO toasted VALUES (1, 1, repeat('a', 3000)), (2, 2, repeat('b', 3000));
---
INSERT INTO toasted VALUES (3, 3, repeat('c', 9000));
-> insert toasted (3, 3, 'cccccccccc… 9000')
UPDATE toasted SET n = 10 WHERE id = 1;
-> update toasted (1, -, -) to (1, 10, ~)
UPDATE toasted SET id = 20 WHERE id = 2;
-> update toasted (2, -, -) to (20, 2, ~)
UPDATE toasted SET big = big || 'x' WHERE id = 1;
-> update toasted (1, -, -) to (1, 10, 'aaaaaaaaaa… 3001')
UPDATE toasted SET big = 'short' WHERE id = 1;
-> update toasted (1, -, -) to (1, 10, 'short')
UPDATE toasted SET n = 11 WHERE id = 1;
-> update toasted (1, -, -) to (1, 11, 'short')
UPDATE toasted SET big = NULL WHERE id = 3;
-> update toasted (3, -, -) to (3, 3, NULL)
DELETE FROM toasted;
-> delete toasted (20, -, -)
+> delete toasted (1, -, -)
+> delete toasted (3, -, -)

## the whole row: what was left as it was is in the row before
CREATE TABLE toasted_whole (id int PRIMARY KEY, n int, big text);
ALTER TABLE toasted_whole ALTER big SET STORAGE EXTERNAL;
ALTER TABLE toasted_whole REPLICA IDENTITY FULL;
INSERT INTO toasted_whole VALUES (1, 1, repeat('a', 3000));
---
UPDATE toasted_whole SET n = 10;
-> update toasted_whole (1, 1, 'aaaaaaaaaa… 3000') to (1, 10, 'aaaaaaaaaa… 3000')
UPDATE toasted_whole SET id = 2;
-> update toasted_whole (1, 10, 'aaaaaaaaaa… 3000') to (2, 10, 'aaaaaaaaaa… 3000')
DELETE FROM toasted_whole;
-> delete toasted_whole (2, 10, 'aaaaaaaaaa… 3000')

## no key
CREATE TABLE toasted_keyless (n int, big text);
ALTER TABLE toasted_keyless ALTER big SET STORAGE EXTERNAL;
INSERT INTO toasted_keyless VALUES (1, repeat('a', 3000));
---
UPDATE toasted_keyless SET n = 2;
-> update toasted_keyless (1, 'aaaaaaaaaa… 3000') to (2, 'aaaaaaaaaa… 3000')
DELETE FROM toasted_keyless;
-> delete toasted_keyless (2, 'aaaaaaaaaa… 3000')

## several, of which one changes; in one transaction with the insert
CREATE TABLE toasted_many (id int PRIMARY KEY, a text, n int, b bytea, c int[]);
ALTER TABLE toasted_many ALTER a SET STORAGE EXTERNAL;
ALTER TABLE toasted_many ALTER b SET STORAGE EXTERNAL;
ALTER TABLE toasted_many ALTER c SET STORAGE EXTERNAL;
---
BEGIN;
INSERT INTO toasted_many SELECT 1, repeat('a', 3000), 1, decode(repeat('00ff', 1500), 'hex'), array_agg(1) FROM generate_series(1, 1000);
-> insert toasted_many (1, 'aaaaaaaaaa… 3000', 1, '\\x00ff00f… 6003', '{1,1,1,1,1… 2001')
UPDATE toasted_many SET n = 2;
+> update toasted_many (1, -, -, -, -) to (1, ~, 2, ~, ~)
UPDATE toasted_many SET a = repeat('b', 4000), n = 3;
+> update toasted_many (1, -, -, -, -) to (1, 'bbbbbbbbbb… 4000', 3, ~, ~)
UPDATE toasted_many SET c = NULL;
+> update toasted_many (1, -, -, -, -) to (1, ~, 3, ~, NULL)
COMMIT;

## large, and in the row: compressed values are logged
CREATE TABLE compressed (id int PRIMARY KEY, n int, big text);
INSERT INTO compressed VALUES (1, 1, repeat('a', 9000));
---
UPDATE compressed SET n = 2;
-> update compressed (1, -, -) to (1, 2, 'aaaaaaaaaa… 9000')

## a table that is rewritten logs no rows
CREATE TABLE rewritten (id int PRIMARY KEY, n int, big text);
ALTER TABLE rewritten ALTER big SET STORAGE EXTERNAL;
INSERT INTO rewritten VALUES (1, 1, repeat('a', 3000));
---
VACUUM FULL rewritten;
CLUSTER rewritten USING rewritten_pkey;
ALTER TABLE rewritten ALTER n SET NOT NULL;
UPDATE rewritten SET n = 2;
-> update rewritten (1, -, -) to (1, 2, ~)
