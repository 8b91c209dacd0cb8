# Inserts, updates and deletes of every shape: what each writes to the log.

## inserts of one and several rows
CREATE TABLE ins (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(10) DEFAULT 'none', n INT);
---
INSERT INTO ins VALUES (1, 'a', 1);
-> insert ins (1, 'a', 1)
INSERT INTO ins (v) VALUES ('b'), ('c''d'), (NULL);
-> insert ins (2, 'b', NULL)
+> insert ins (3, 'c''d', NULL)
+> insert ins (4, NULL, NULL)
INSERT INTO ins SET n = -7;
-> insert ins (5, 'none', -7)
INSERT INTO ins SELECT id + 100, v, n + 100 FROM ins WHERE id IN (1, 5) ORDER BY id;
-> insert ins (101, 'a', 101)
+> insert ins (105, 'none', 93)
INSERT INTO ins () VALUES ();
-> insert ins (106, 'none', NULL)
INSERT INTO ins SELECT * FROM ins WHERE id > 1000;

## inserts that are refused or left out
CREATE TABLE dup (id INT PRIMARY KEY, u INT UNIQUE);
INSERT INTO dup VALUES (1, 1);
---
INSERT INTO dup VALUES (2, 2), (1, 3);
-> error 1062
INSERT IGNORE INTO dup VALUES (3, 3), (1, 4), (4, 1), (5, 5);
-> insert dup (3, 3)
+> insert dup (5, 5)
INSERT INTO dup VALUES (6, 'six');
-> error 1366

## replace: an update where the unique key in question is the last one, else a delete and an insert
CREATE TABLE rep (id INT PRIMARY KEY, u INT UNIQUE, v VARCHAR(5));
INSERT INTO rep VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
---
REPLACE INTO rep VALUES (4, 4, 'new');
-> insert rep (4, 4, 'new')
REPLACE INTO rep VALUES (1, 11, 'A');
-> delete rep (1, 1, 'a')
+> insert rep (1, 11, 'A')
REPLACE INTO rep VALUES (9, 2, 'B');
-> update rep (2, 2, 'b') to (9, 2, 'B')
REPLACE INTO rep VALUES (4, 3, 'both');
-> delete rep (4, 4, 'new')
+> update rep (3, 3, 'c') to (4, 3, 'both')

## on duplicate key update
CREATE TABLE odk (id INT PRIMARY KEY, u INT UNIQUE, n INT);
INSERT INTO odk VALUES (1, 1, 0), (2, 2, 0);
---
INSERT INTO odk VALUES (1, 5, 9), (3, 3, 3) ON DUPLICATE KEY UPDATE n = n + 1;
-> update odk (1, 1, 0) to (1, 1, 1)
+> insert odk (3, 3, 3)
INSERT INTO odk VALUES (7, 2, 9) ON DUPLICATE KEY UPDATE n = VALUES(n), id = 20;
-> update odk (2, 2, 0) to (20, 2, 9)
INSERT INTO odk VALUES (3, 3, 3) ON DUPLICATE KEY UPDATE n = 3;

## updates: only what changes, with the whole row before and after
CREATE TABLE upd (id INT PRIMARY KEY, v VARCHAR(10), n INT);
INSERT INTO upd VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3);
---
UPDATE upd SET n = n * 10 WHERE id > 1;
-> update upd (2, 'b', 2) to (2, 'b', 20)
+> update upd (3, NULL, 3) to (3, NULL, 30)
UPDATE upd SET v = 'a' WHERE id = 1;
UPDATE upd SET v = NULL, n = NULL WHERE id = 1;
-> update upd (1, 'a', 1) to (1, NULL, NULL)
UPDATE upd SET v = '' WHERE v IS NULL;
-> update upd (1, NULL, NULL) to (1, '', NULL)
+> update upd (3, NULL, 30) to (3, '', 30)
UPDATE upd SET n = 0 WHERE id = 99;
UPDATE upd SET n = 7 ORDER BY id DESC LIMIT 1;
-> update upd (3, '', 30) to (3, '', 7)

## keys that change, shift and swap
CREATE TABLE keyed (id INT PRIMARY KEY, u INT UNIQUE);
INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3);
---
UPDATE keyed SET id = 10 WHERE id = 1;
-> update keyed (1, 1) to (10, 1)
UPDATE keyed SET id = id + 1 ORDER BY id DESC;
-> update keyed (10, 1) to (11, 1)
+> update keyed (3, 3) to (4, 3)
+> update keyed (2, 2) to (3, 2)
BEGIN;
UPDATE keyed SET u = NULL WHERE id = 3;
-> update keyed (3, 2) to (3, NULL)
UPDATE keyed SET u = 2 WHERE id = 4;
+> update keyed (4, 3) to (4, 2)
UPDATE keyed SET u = 3 WHERE id = 3;
+> update keyed (3, NULL) to (3, 3)
COMMIT;
UPDATE keyed SET id = 4 WHERE id = 3;
-> error 1062

## deletes
CREATE TABLE del (id INT PRIMARY KEY, v VARCHAR(5));
INSERT INTO del VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL);
---
DELETE FROM del WHERE id = 2;
-> delete del (2, 'b')
DELETE FROM del ORDER BY id DESC LIMIT 1;
-> delete del (4, NULL)
DELETE FROM del WHERE v = 'none';
DELETE FROM del;
-> delete del (1, 'a')
+> delete del (3, 'c')

## updates and deletes of several tables
CREATE TABLE mone (id INT PRIMARY KEY, n INT);
CREATE TABLE mtwo (id INT PRIMARY KEY, one INT, n INT);
INSERT INTO mone VALUES (1, 1), (2, 2);
INSERT INTO mtwo VALUES (10, 1, 0), (11, 1, 0), (12, 2, 0);
---
UPDATE mone, mtwo SET mone.n = 5 WHERE mone.id = mtwo.one AND mtwo.id = 12;
-> update mone (2, 2) to (2, 5)
UPDATE mtwo JOIN mone ON mone.id = mtwo.one SET mtwo.n = mone.n WHERE mone.id = 2;
-> update mtwo (12, 2, 0) to (12, 2, 5)
DELETE mtwo FROM mtwo JOIN mone ON mone.id = mtwo.one WHERE mone.id = 1;
-> delete mtwo (10, 1, 0)
+> delete mtwo (11, 1, 0)

## a table without a key
CREATE TABLE nokey (v VARCHAR(5), n INT);
INSERT INTO nokey VALUES ('a', 1), ('a', 1), ('b', NULL);
---
DELETE FROM nokey WHERE v = 'a' LIMIT 1;
-> delete nokey ('a', 1)
UPDATE nokey SET n = 2 WHERE v = 'a';
-> update nokey ('a', 1) to ('a', 2)
INSERT INTO nokey VALUES (NULL, NULL), (NULL, NULL);
-> insert nokey (NULL, NULL)
+> insert nokey (NULL, NULL)

## rows of a file
data: 1,a|2,\N|3,c d
CREATE TABLE filed (id INT PRIMARY KEY, v VARCHAR(5));
INSERT INTO filed VALUES (2, 'old');
---
LOAD DATA LOCAL INFILE '{data}' REPLACE INTO TABLE filed FIELDS TERMINATED BY ',';
-> insert filed (1, 'a')
+> update filed (2, 'old') to (2, NULL)
+> insert filed (3, 'c d')

## names that need quotes
CREATE TABLE `sel``ect` (`group` INT PRIMARY KEY, `a.b` INT, `"` VARCHAR(5), `%s{0}` INT, `Ünïcödé ☃` INT);
---
INSERT INTO `sel``ect` VALUES (1, 2, '"', 3, 4);
-> insert sel`ect (1, 2, '"', 3, 4)
UPDATE `sel``ect` SET `%s{0}` = NULL WHERE `group` = 1;
-> update sel`ect (1, 2, '"', 3, 4) to (1, 2, '"', NULL, 4)

## tables and columns told apart by case alone
CREATE TABLE Cased (id INT PRIMARY KEY, V INT);
CREATE TABLE cased (id INT PRIMARY KEY, v INT);
---
INSERT INTO Cased VALUES (1, 1);
-> insert Cased (1, 1)
INSERT INTO cased VALUES (1, 2);
-> insert cased (1, 2)
UPDATE Cased, cased SET Cased.v = 3, cased.V = 4 WHERE Cased.id = cased.id;
-> update Cased (1, 1) to (1, 3)
+> update cased (1, 2) to (1, 4)

## partitions
CREATE TABLE parted (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN MAXVALUE);
---
INSERT INTO parted VALUES (1, 1), (20, 2);
-> insert parted (1, 1)
+> insert parted (20, 2)
UPDATE parted SET id = id + 9 WHERE id = 1;
-> update parted (1, 1) to (10, 1)
DELETE FROM parted WHERE id >= 10;
-> delete parted (10, 1)
+> delete parted (20, 2)
ALTER TABLE parted REORGANIZE PARTITION low INTO (PARTITION a VALUES LESS THAN (5), PARTITION b VALUES LESS THAN (10));
-> alter parted
INSERT INTO parted VALUES (3, 3);
-> insert parted (3, 3)
ALTER TABLE parted TRUNCATE PARTITION a;
-> partition parted
