# What belongs together, what was taken back, and in which order it comes.

## one transaction over several tables
CREATE TABLE tone (id INT PRIMARY KEY, v INT);
CREATE TABLE ttwo (id INT PRIMARY KEY, v INT);
---
BEGIN;
INSERT INTO tone VALUES (1, 1), (2, 2);
-> insert tone (1, 1)
+> insert tone (2, 2)
INSERT INTO ttwo VALUES (1, 1);
+> insert ttwo (1, 1)
UPDATE tone SET v = 5 WHERE id = 2;
+> update tone (2, 2) to (2, 5)
DELETE FROM tone WHERE id = 2;
+> delete tone (2, 5)
INSERT INTO tone VALUES (2, 6);
+> insert tone (2, 6)
COMMIT;

## rolled back: nothing of it
CREATE TABLE undone (id INT PRIMARY KEY);
---
START TRANSACTION;
INSERT INTO undone VALUES (1);
ROLLBACK;
SET autocommit = 0;
INSERT INTO undone VALUES (2);
ROLLBACK;
INSERT INTO undone VALUES (3);
-> insert undone (3)
COMMIT;
SET autocommit = 1;

## savepoints
CREATE TABLE saved (id INT PRIMARY KEY);
---
BEGIN;
INSERT INTO saved VALUES (1);
-> insert saved (1)
SAVEPOINT `a b`;
INSERT INTO saved VALUES (2);
SAVEPOINT c;
INSERT INTO saved VALUES (3);
ROLLBACK TO SAVEPOINT c;
ROLLBACK TO SAVEPOINT `a b`;
INSERT INTO saved VALUES (4);
+> insert saved (4)
RELEASE SAVEPOINT `a b`;
INSERT INTO saved VALUES (5), (1);
-> error 1062
COMMIT;

## the order is that of the commits
CREATE TABLE ordered (id INT PRIMARY KEY);
---
@one BEGIN;
@one INSERT INTO ordered VALUES (1);
@two BEGIN;
@two INSERT INTO ordered VALUES (2);
-> insert ordered (2)
@two COMMIT;
INSERT INTO ordered VALUES (3);
-> insert ordered (3)
@one INSERT INTO ordered VALUES (4);
-> insert ordered (1)
+> insert ordered (4)
@one COMMIT;

## a statement of DDL commits what is open
CREATE TABLE open_ended (id INT PRIMARY KEY);
---
BEGIN;
INSERT INTO open_ended VALUES (1);
-> insert open_ended (1)
CREATE TABLE passing (id INT PRIMARY KEY);
INSERT INTO open_ended VALUES (2);
-> insert open_ended (2)
ROLLBACK;
DROP TABLE passing;
-> drop passing

## not logged by the session's wish
CREATE TABLE unseen (id INT PRIMARY KEY);
---
SET SESSION sql_log_bin = 0;
INSERT INTO unseen VALUES (1);
SET SESSION sql_log_bin = 1;
INSERT INTO unseen VALUES (2);
-> insert unseen (2)

## a long transaction of many statements
CREATE TABLE long_one (id INT PRIMARY KEY, v INT);
CREATE PROCEDURE fill_long() BEGIN
  DECLARE n INT DEFAULT 0;
  START TRANSACTION;
  WHILE n < 3 DO
    INSERT INTO long_one VALUES (n, 0);
    UPDATE long_one SET v = v + 1 WHERE id = n;
    SET n = n + 1;
  END WHILE;
  DELETE FROM long_one WHERE id = 1;
  COMMIT;
END;
---
CALL fill_long();
-> insert long_one (0, 0)
+> update long_one (0, 0) to (0, 1)
+> insert long_one (1, 0)
+> update long_one (1, 0) to (1, 1)
+> insert long_one (2, 0)
+> update long_one (2, 0) to (2, 1)
+> delete long_one (1, 1)

## tables without transactions: every statement is one
CREATE TABLE isam (id INT PRIMARY KEY) ENGINE = MyISAM;
---
BEGIN;
INSERT INTO isam VALUES (1), (2);
-> insert isam (1)
+> insert isam (2)
INSERT INTO isam VALUES (3);
-> insert isam (3)
COMMIT;
INSERT INTO isam VALUES (4), (1), (5);
-> insert isam (4)
-> error 1062
