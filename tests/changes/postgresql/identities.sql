# What the log says of the row before: its replica identity.

## the default: the key
CREATE TABLE usual (id int PRIMARY KEY, v text, n int);
INSERT INTO usual VALUES (1, 'a', 1), (2, 'b', 2);
---
UPDATE usual SET v = 'x' WHERE id = 1;
-> update usual (1, -, -) to (1, 'x', 1)
UPDATE usual SET id = 10 WHERE id = 1;
-> update usual (1, -, -) to (10, 'x', 1)
DELETE FROM usual;
-> delete usual (2, -, -)
+> delete usual (10, -, -)

## the whole row
CREATE TABLE whole (id int PRIMARY KEY, v text, n int);
ALTER TABLE whole REPLICA IDENTITY FULL;
INSERT INTO whole VALUES (1, 'a', 1), (2, 'b', 2);
---
UPDATE whole SET v = 'x' WHERE id = 1;
-> update whole (1, 'a', 1) to (1, 'x', 1)
UPDATE whole SET id = 10 WHERE id = 1;
-> update whole (1, 'x', 1) to (10, 'x', 1)
DELETE FROM whole;
-> delete whole (2, 'b', 2)
+> delete whole (10, 'x', 1)

## the whole row, with NULL in it
needs: old nulls
CREATE TABLE nulls (id int PRIMARY KEY, v text, n int);
ALTER TABLE nulls REPLICA IDENTITY FULL;
INSERT INTO nulls VALUES (1, NULL, NULL);
---
UPDATE nulls SET v = 'x';
-> update nulls (1, NULL, NULL) to (1, 'x', NULL)
DELETE FROM nulls;
-> delete nulls (1, 'x', NULL)

## the whole row, with NULL in it: decoderbufs is silent about what was NULL
only: decoderbufs
CREATE TABLE nulls (id int PRIMARY KEY, v text, n int);
ALTER TABLE nulls REPLICA IDENTITY FULL;
INSERT INTO nulls VALUES (1, NULL, NULL);
---
UPDATE nulls SET v = 'x';
-> update nulls (1, -, -) to (1, 'x', NULL)
DELETE FROM nulls;
-> delete nulls (1, 'x', -)

## no key: set-up asks for the whole row
CREATE TABLE keyless (a int, b text);
INSERT INTO keyless VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
---
INSERT INTO keyless VALUES (NULL, 'n');
-> insert keyless (NULL, 'n')
UPDATE keyless SET b = 'b' WHERE a = 1;
-> update keyless (1, 'a') to (1, 'b')
+> update keyless (1, 'a') to (1, 'b')
UPDATE keyless SET a = 0 WHERE a IS NULL AND b IS NULL;
-> update keyless (NULL, NULL) to (0, NULL)
DELETE FROM keyless WHERE b IS NULL OR b = 'n';
-> delete keyless (NULL, 'n')
+> delete keyless (0, NULL)

## an index that has the key in it
CREATE TABLE covering (id int PRIMARY KEY, a int NOT NULL, b text);
CREATE UNIQUE INDEX covering_by ON covering (a, id);
ALTER TABLE covering REPLICA IDENTITY USING INDEX covering_by;
INSERT INTO covering VALUES (1, 1, 'a'), (2, 2, 'b');
---
UPDATE covering SET a = 9 WHERE id = 1;
-> update covering (1, 1, -) to (1, 9, 'a')
UPDATE covering SET id = 7 WHERE id = 1;
-> update covering (1, 9, -) to (7, 9, 'a')
DELETE FROM covering;
-> delete covering (2, 2, -)
+> delete covering (7, 9, -)

## an index that has not: preflight refuses it, and by decoderbufs an update that leaves it as it is would look like one of the key
only: pgoutput
only: wal2json
CREATE TABLE named (id int PRIMARY KEY, a int NOT NULL, b text NOT NULL, c int);
CREATE UNIQUE INDEX named_by ON named (b, a);
ALTER TABLE named REPLICA IDENTITY USING INDEX named_by;
INSERT INTO named VALUES (1, 1, 'a', 1), (2, 2, 'b', 2);
---
UPDATE named SET c = 9 WHERE id = 1;
-> update named (-, 1, 'a', -) to (1, 1, 'a', 9)
UPDATE named SET id = 7 WHERE id = 1;
-> update named (-, 1, 'a', -) to (7, 1, 'a', 9)
UPDATE named SET b = 'c' WHERE id = 2;
-> update named (-, 2, 'b', -) to (2, 2, 'c', 2)
DELETE FROM named;
-> delete named (-, 1, 'a', -)
+> delete named (-, 2, 'c', -)

## nothing: the server refuses to change what it could not tell of
CREATE TABLE nothing (id int PRIMARY KEY, v text);
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
INSERT INTO nothing VALUES (1, 'a');
---
INSERT INTO nothing VALUES (2, 'b');
-> insert nothing (2, 'b')
UPDATE nothing SET v = 'x';
-> error 55000
DELETE FROM nothing;
-> error 55000
TRUNCATE nothing;
-> truncate nothing

## another identity meanwhile
CREATE TABLE other_identity (id int PRIMARY KEY, v text NOT NULL);
INSERT INTO other_identity VALUES (1, 'a');
---
UPDATE other_identity SET v = 'b';
-> update other_identity (1, -) to (1, 'b')
ALTER TABLE other_identity REPLICA IDENTITY FULL;
UPDATE other_identity SET v = 'c';
-> update other_identity (1, 'b') to (1, 'c')
ALTER TABLE other_identity REPLICA IDENTITY DEFAULT;
DELETE FROM other_identity;
-> delete other_identity (1, -)
