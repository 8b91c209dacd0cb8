# Row images that carry less than the whole row, as sessions may choose.

## minimal: the key before, what was set after
needs: row images
CREATE TABLE mini (id INT PRIMARY KEY, a INT, b VARCHAR(5) DEFAULT 'b', c TEXT);
INSERT INTO mini VALUES (1, 1, 'x', 'text'), (2, 2, 'y', NULL);
---
SET SESSION binlog_row_image = 'MINIMAL';
UPDATE mini SET a = 9 WHERE id = 1;
-> update mini (1, -, -, -) to (-, 9, -, -)
UPDATE mini SET id = 5, c = NULL WHERE id = 2;
-> update mini (2, -, -, -) to (5, -, -, NULL)
DELETE FROM mini WHERE id = 1;
-> delete mini (1, -, -, -)
SET SESSION binlog_row_image = 'FULL';
DELETE FROM mini;
-> delete mini (5, 2, 'y', NULL)

## minimal without a key: MariaDB logs whole rows
only: mariadb
CREATE TABLE mini_keyless (a INT, b INT);
INSERT INTO mini_keyless VALUES (1, 1);
---
SET SESSION binlog_row_image = 'MINIMAL';
UPDATE mini_keyless SET b = 2;
-> update mini_keyless (1, 1) to (1, 2)
DELETE FROM mini_keyless;
-> delete mini_keyless (1, 2)

## minimal without a key: MySQL the whole row before
only: mysql
needs: row images
CREATE TABLE mini_keyless (a INT, b INT);
INSERT INTO mini_keyless VALUES (1, 1);
---
SET SESSION binlog_row_image = 'MINIMAL';
UPDATE mini_keyless SET b = 2;
-> update mini_keyless (1, 1) to (-, 2)
DELETE FROM mini_keyless;
-> delete mini_keyless (1, 2)

## noblob: long values only where they are set
needs: row images
CREATE TABLE nob (id INT PRIMARY KEY, a INT, t TEXT, b BLOB);
INSERT INTO nob VALUES (1, 1, 'text', 'blob');
---
SET SESSION binlog_row_image = 'NOBLOB';
UPDATE nob SET a = 2;
-> update nob (1, 1, -, -) to (1, 2, -, -)
UPDATE nob SET t = '';
-> update nob (1, 2, -, -) to (1, 2, '', -)
DELETE FROM nob;
-> delete nob (1, 2, -, -)

## many columns: the bitmaps span bytes
CREATE TABLE wide (c01 INT, c02 INT, c03 INT, c04 INT, c05 INT, c06 INT, c07 INT, c08 INT, c09 INT PRIMARY KEY, c10 VARCHAR(3), c11 INT, c12 INT, c13 INT, c14 INT, c15 INT, c16 INT, c17 VARCHAR(3));
---
INSERT INTO wide (c01, c09, c17) VALUES (1, 9, 'z');
-> insert wide (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 9, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'z')
UPDATE wide SET c08 = 8, c10 = 'x', c16 = 16, c17 = NULL;
-> update wide (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 9, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'z') to (1, NULL, NULL, NULL, NULL, NULL, NULL, 8, 9, 'x', NULL, NULL, NULL, NULL, NULL, 16, NULL)
