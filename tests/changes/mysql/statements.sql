# Statements that are logged as such, and what rows do around them.

## truncate
CREATE TABLE trunc (id INT AUTO_INCREMENT PRIMARY KEY, v INT);
INSERT INTO trunc (v) VALUES (1), (2);
---
DELETE FROM trunc WHERE v = 1;
-> delete trunc (1, 1)
TRUNCATE TABLE trunc;
-> truncate trunc
INSERT INTO trunc (v) VALUES (3);
-> insert trunc (1, 3)

## renames, swaps
CREATE TABLE ren_a (id INT PRIMARY KEY);
CREATE TABLE ren_b (id INT PRIMARY KEY);
---
RENAME TABLE ren_a TO ren_c, ren_b TO ren_a, ren_c TO ren_b;
-> rename ren_a, ren_c, ren_b, ren_a, ren_c, ren_b
ALTER TABLE ren_a RENAME TO ren_z;
-> rename ren_a, ren_z

## a new table that is filled as it is made: nobody replicates it yet
CREATE TABLE from_here (id INT PRIMARY KEY);
INSERT INTO from_here VALUES (1), (2);
needs: CREATE TABLE … SELECT
---
CREATE TABLE to_there SELECT * FROM from_here;
INSERT INTO from_here VALUES (3);
-> insert from_here (3)
DROP TABLE to_there;
-> drop to_there

## columns that change
CREATE TABLE altered (id INT PRIMARY KEY, a INT);
---
INSERT INTO altered VALUES (1, 1);
-> insert altered (1, 1)
ALTER TABLE altered COMMENT 'of no importance';
-> alter altered
ALTER TABLE altered ADD INDEX by_a (a);
-> alter altered
INSERT INTO altered VALUES (2, 2);
-> insert altered (2, 2)
ALTER TABLE altered ADD COLUMN b INT DEFAULT 5;
-> columns altered
INSERT INTO altered VALUES (3, 3, 3);
-> park altered

## indexes of their own statements
CREATE TABLE indexed (id INT PRIMARY KEY, a INT);
---
CREATE INDEX by_a ON indexed (a);
-> alter indexed
DROP INDEX by_a ON indexed;
-> alter indexed
CREATE UNIQUE INDEX by_a ON indexed (a);
-> alter indexed

## what is harmless
CREATE TABLE calm (id INT PRIMARY KEY);
---
CREATE VIEW calm_view AS SELECT * FROM calm;
CREATE TRIGGER calm_trigger BEFORE INSERT ON calm FOR EACH ROW SET NEW.id = NEW.id + 1;
INSERT INTO calm VALUES (1);
-> insert calm (2)
DROP TRIGGER calm_trigger;
ANALYZE TABLE calm;
DROP VIEW calm_view;
CREATE PROCEDURE calm_procedure() SELECT 1;
DROP PROCEDURE calm_procedure;
FLUSH TABLES;
INSERT INTO calm VALUES (1);
-> insert calm (1)

## dropped
CREATE TABLE gone (id INT PRIMARY KEY);
CREATE TABLE gone_too (id INT PRIMARY KEY);
---
INSERT INTO gone VALUES (1);
-> insert gone (1)
DROP TABLE gone, gone_too;
-> drop gone, gone_too
DROP TABLE IF EXISTS never_there;
-> drop never_there

## names with a character beyond the basic plane: MySQL keeps a question mark
only: mysql
CREATE TABLE `em😀ji` (id INT PRIMARY KEY, `c😀` INT);
---
INSERT INTO `em😀ji` VALUES (1, 1);
-> insert em?ji (1, 1)
TRUNCATE TABLE `em😀ji`;
-> truncate em?ji
DROP TABLE `em😀ji`;
-> drop em?ji
