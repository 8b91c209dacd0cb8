# Tables in parts: rows come as rows of the root, from release 13 on and by pgoutput alone.

## by the root and by its parts
needs: rows of roots
CREATE TABLE parts (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (100) TO (MAXVALUE);
---
INSERT INTO parts VALUES (1, 'a'), (200, 'b');
-> insert parts (1, 'a')
+> insert parts (200, 'b')
INSERT INTO parts_low VALUES (2, 'c');
-> insert parts (2, 'c')
UPDATE parts SET v = 'd' WHERE id = 1;
-> update parts (1, -) to (1, 'd')
UPDATE parts_high SET v = 'e';
-> update parts (200, -) to (200, 'e')
DELETE FROM parts WHERE id = 2;
-> delete parts (2, -)
INSERT INTO parts_low VALUES (200, 'no');
-> error 23514

## moved between parts: a delete and an insert
needs: rows of roots
CREATE TABLE moved (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE moved_low PARTITION OF moved FOR VALUES FROM (0) TO (100);
CREATE TABLE moved_high PARTITION OF moved FOR VALUES FROM (100) TO (200);
INSERT INTO moved VALUES (1, 'a');
---
UPDATE moved SET id = 150;
-> delete moved (1, -)
+> insert moved (150, 'a')

## parts of parts, whose columns stand in another order
needs: rows of roots
CREATE TABLE deep (id int, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE deep_eu PARTITION OF deep FOR VALUES IN ('eu') PARTITION BY HASH (id);
CREATE TABLE deep_eu_0 PARTITION OF deep_eu FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE deep_eu_1 (v text, gone int, region text NOT NULL, id int NOT NULL);
ALTER TABLE deep_eu_1 DROP COLUMN gone;
ALTER TABLE deep_eu ATTACH PARTITION deep_eu_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE deep_other PARTITION OF deep DEFAULT;
---
INSERT INTO deep SELECT n, 'eu', 'v' FROM generate_series(1, 4) n;
-> insert deep (1, 'eu', 'v')
+> insert deep (2, 'eu', 'v')
+> insert deep (3, 'eu', 'v')
+> insert deep (4, 'eu', 'v')
UPDATE deep SET v = 'w' WHERE id = 1;
-> update deep (1, 'eu', -) to (1, 'eu', 'w')
UPDATE deep SET v = 'w' WHERE id = 3;
-> update deep (3, 'eu', -) to (3, 'eu', 'w')
UPDATE deep SET region = 'us' WHERE id = 2;
-> delete deep (2, 'eu', -)
+> insert deep (2, 'us', 'v')

## truncated as a whole
needs: rows of roots
CREATE TABLE emptied (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE emptied_low PARTITION OF emptied FOR VALUES FROM (0) TO (100);
INSERT INTO emptied VALUES (1);
---
TRUNCATE emptied;
-> truncate emptied

## one part is truncated: the log of its root does not tell of it
needs: rows of roots
CREATE TABLE emptied_part (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE emptied_part_low PARTITION OF emptied_part FOR VALUES FROM (0) TO (100);
INSERT INTO emptied_part VALUES (1);
---
TRUNCATE emptied_part_low;

## parts that come and go
needs: rows of roots
CREATE TABLE coming (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE coming_low PARTITION OF coming FOR VALUES FROM (0) TO (100);
CREATE TABLE coming_alone (id int PRIMARY KEY, v text);
---
CREATE TABLE coming_high PARTITION OF coming FOR VALUES FROM (100) TO (200);
INSERT INTO coming VALUES (150, 'a');
-> insert coming (150, 'a')
ALTER TABLE coming DETACH PARTITION coming_high;
INSERT INTO coming_high VALUES (151, 'b');
DROP TABLE coming_high;
INSERT INTO coming VALUES (1, 'c');
-> insert coming (1, 'c')

## before release 13 a part is a table
only: pgoutput
before: 13
CREATE TABLE pieces (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE pieces_low PARTITION OF pieces (PRIMARY KEY (id)) FOR VALUES FROM (0) TO (100);
CREATE TABLE pieces_high PARTITION OF pieces (PRIMARY KEY (id)) FOR VALUES FROM (100) TO (200);
---
INSERT INTO pieces VALUES (1, 'a'), (150, 'b');
-> insert pieces_low (1, 'a')
+> insert pieces_high (150, 'b')
UPDATE pieces SET v = 'c' WHERE id = 1;
-> update pieces_low (1, -) to (1, 'c')
UPDATE pieces SET id = 151 WHERE id = 1;
-> delete pieces_low (1, -)
+> insert pieces_high (151, 'c')
TRUNCATE pieces;
-> truncate pieces_high
+> truncate pieces_low

## tables that inherit are tables of their own
CREATE TABLE ancestor (id int PRIMARY KEY, v text);
CREATE TABLE heir (more int, PRIMARY KEY (id)) INHERITS (ancestor);
---
INSERT INTO ancestor VALUES (1, 'a');
-> insert ancestor (1, 'a')
INSERT INTO heir VALUES (2, 'b', 3);
-> insert heir (2, 'b', 3)
UPDATE ancestor SET v = 'c';
-> update ancestor (1, -) to (1, 'c')
+> update heir (2, -, -) to (2, 'c', 3)
TRUNCATE ONLY ancestor;
-> truncate ancestor
TRUNCATE ancestor;
-> truncate ancestor
+> truncate heir
