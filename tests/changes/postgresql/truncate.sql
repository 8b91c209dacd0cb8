# TRUNCATE, in its place among the rows.

## a table
CREATE TABLE trunc (id int PRIMARY KEY, v int);
INSERT INTO trunc VALUES (1, 1), (2, 2);
---
DELETE FROM trunc WHERE v = 1;
-> delete trunc (1, -)
TRUNCATE trunc;
-> truncate trunc
INSERT INTO trunc VALUES (1, 3);
-> insert trunc (1, 3)
TRUNCATE TABLE ONLY trunc;
-> truncate trunc
TRUNCATE trunc;
-> truncate trunc

## several tables at once
CREATE TABLE trunc_a (id int PRIMARY KEY);
CREATE TABLE trunc_b (id int PRIMARY KEY);
---
TRUNCATE trunc_b, trunc_a;
-> truncate trunc_a
+> truncate trunc_b

## among rows of one transaction
CREATE TABLE within (id int PRIMARY KEY, v int);
INSERT INTO within VALUES (1, 1);
---
BEGIN;
INSERT INTO within VALUES (2, 2);
-> insert within (2, 2)
TRUNCATE within;
+> truncate within
INSERT INTO within VALUES (1, 10);
+> insert within (1, 10)
UPDATE within SET v = 11;
+> update within (1, -) to (1, 11)
TRUNCATE within;
+> truncate within
COMMIT;

## rolled back
CREATE TABLE kept (id int PRIMARY KEY);
INSERT INTO kept VALUES (1);
---
BEGIN;
TRUNCATE kept;
ROLLBACK;
BEGIN;
SAVEPOINT a;
TRUNCATE kept;
ROLLBACK TO a;
DELETE FROM kept;
-> delete kept (1)
COMMIT;

## what foreign keys point at
CREATE TABLE trunc_parent (id int PRIMARY KEY);
CREATE TABLE trunc_child (id int PRIMARY KEY, parent int REFERENCES trunc_parent);
CREATE TABLE trunc_grandchild (id int PRIMARY KEY, child int REFERENCES trunc_child);
INSERT INTO trunc_parent VALUES (1);
INSERT INTO trunc_child VALUES (1, 1);
INSERT INTO trunc_grandchild VALUES (1, 1);
---
TRUNCATE trunc_parent;
-> error 0A000
TRUNCATE trunc_parent CASCADE;
-> truncate trunc_child
+> truncate trunc_grandchild
+> truncate trunc_parent
TRUNCATE trunc_parent, trunc_child, trunc_grandchild RESTRICT;
-> truncate trunc_child
+> truncate trunc_grandchild
+> truncate trunc_parent

## sequences begin anew
CREATE TABLE restarted (id serial PRIMARY KEY);
---
INSERT INTO restarted DEFAULT VALUES;
-> insert restarted (1)
TRUNCATE restarted;
-> truncate restarted
INSERT INTO restarted DEFAULT VALUES;
-> insert restarted (2)
TRUNCATE restarted RESTART IDENTITY;
-> truncate restarted
INSERT INTO restarted DEFAULT VALUES;
-> insert restarted (1)

## by a session whose triggers are off
CREATE TABLE off_parent (id int PRIMARY KEY);
CREATE TABLE off_child (id int PRIMARY KEY REFERENCES off_parent);
---
SET session_replication_role = replica;
TRUNCATE off_child;
-> truncate off_child
INSERT INTO off_child VALUES (1);
-> insert off_child (1)
SET session_replication_role = origin;

## by who may do no more than that
CREATE TABLE granted (id int PRIMARY KEY);
INSERT INTO granted VALUES (1);
CREATE FUNCTION truncate_granted() RETURNS void LANGUAGE sql AS 'TRUNCATE granted';
---
SELECT truncate_granted();
-> truncate granted

## a table that was filled in the transaction that made it
CREATE TABLE beside (id int PRIMARY KEY);
---
BEGIN;
CREATE TABLE new_one (id int PRIMARY KEY);
INSERT INTO new_one VALUES (1);
TRUNCATE new_one, beside;
-> truncate beside
COMMIT;
DROP TABLE new_one;
