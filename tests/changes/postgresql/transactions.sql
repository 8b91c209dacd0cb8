# What belongs together, what was taken back, and in which order it comes.

## one transaction over several tables
CREATE TABLE tone (id int PRIMARY KEY, v int);
CREATE TABLE ttwo (id int PRIMARY KEY, v int);
---
BEGIN;
INSERT INTO tone VALUES (1, 1), (2, 2);
-> insert tone (1, 1)
+> insert tone (2, 2)
INSERT INTO ttwo VALUES (1, 1);
+> insert ttwo (1, 1)
UPDATE tone SET v = 5 WHERE id = 2;
+> update tone (2, -) to (2, 5)
DELETE FROM tone WHERE id = 2;
+> delete tone (2, -)
INSERT INTO tone VALUES (2, 6);
+> insert tone (2, 6)
COMMIT;

## rolled back: nothing of it
CREATE TABLE undone (id int PRIMARY KEY);
---
START TRANSACTION;
INSERT INTO undone VALUES (1);
ROLLBACK;
BEGIN;
INSERT INTO undone VALUES (2);
INSERT INTO undone VALUES (2);
-> error 23505
COMMIT;
INSERT INTO undone VALUES (3);
-> insert undone (3)

## savepoints
CREATE TABLE saved (id int PRIMARY KEY);
---
BEGIN;
INSERT INTO saved VALUES (1);
-> insert saved (1)
SAVEPOINT "a b";
INSERT INTO saved VALUES (2);
SAVEPOINT c;
INSERT INTO saved VALUES (3);
ROLLBACK TO c;
ROLLBACK TO "a b";
INSERT INTO saved VALUES (4);
+> insert saved (4)
RELEASE "a b";
SAVEPOINT d;
INSERT INTO saved VALUES (5), (1);
-> error 23505
ROLLBACK TO d;
SAVEPOINT e;
INSERT INTO saved VALUES (6);
+> insert saved (6)
SAVEPOINT f;
TRUNCATE saved;
ROLLBACK TO f;
RELEASE e;
COMMIT;

## exceptions of a block are savepoints
CREATE TABLE blocked (id int PRIMARY KEY);
---
DO $$
BEGIN
  INSERT INTO blocked VALUES (1);
  BEGIN
    INSERT INTO blocked VALUES (2);
    INSERT INTO blocked VALUES (1);
  EXCEPTION WHEN unique_violation THEN
    INSERT INTO blocked VALUES (3);
  END;
END
$$;
-> insert blocked (1)
+> insert blocked (3)

## the order is that of the commits
CREATE TABLE ordered (id int PRIMARY KEY);
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

## a chain of transactions
since: 12
CREATE TABLE chained (id int PRIMARY KEY);
---
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO chained VALUES (1);
-> insert chained (1)
COMMIT AND CHAIN;
INSERT INTO chained VALUES (2);
ROLLBACK AND CHAIN;
INSERT INTO chained VALUES (3);
-> insert chained (3)
COMMIT;

## prepared: rows come where it is committed, whoever does
CREATE TABLE prepared (id int PRIMARY KEY);
---
@one BEGIN;
@one INSERT INTO prepared VALUES (1), (2);
@one PREPARE TRANSACTION 'corpus one';
@two BEGIN;
@two INSERT INTO prepared VALUES (3);
@two PREPARE TRANSACTION 'corpus two';
INSERT INTO prepared VALUES (4);
-> insert prepared (4)
@three COMMIT PREPARED 'corpus one';
-> insert prepared (1)
+> insert prepared (2)
@three ROLLBACK PREPARED 'corpus two';

## a procedure that commits
CREATE TABLE proced (id int PRIMARY KEY);
CREATE PROCEDURE fill_proced() LANGUAGE plpgsql AS $$
BEGIN
  FOR n IN 1..4 LOOP
    INSERT INTO proced VALUES (n);
    IF n % 2 = 0 THEN COMMIT; ELSIF n = 3 THEN ROLLBACK; END IF;
  END LOOP;
END
$$;
---
CALL fill_proced();
-> insert proced (1)
+> insert proced (2)
-> insert proced (4)

## constraints that are checked at the end
CREATE TABLE late (id int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED, UNIQUE (u, id));
INSERT INTO late VALUES (1, 1), (2, 2);
---
BEGIN;
UPDATE late SET u = 2 WHERE id = 1;
-> update late (1, -) to (1, 2)
UPDATE late SET u = 1 WHERE id = 2;
+> update late (2, -) to (2, 1)
COMMIT;
BEGIN;
UPDATE late SET u = 5;
COMMIT;
-> error 23505

## statements that change a table's form, and rows, in one transaction
CREATE TABLE formed (id int PRIMARY KEY);
---
BEGIN;
CREATE TABLE formed_too (id int PRIMARY KEY);
INSERT INTO formed_too VALUES (1);
INSERT INTO formed VALUES (1);
-> insert formed (1)
CREATE INDEX formed_by ON formed (id);
INSERT INTO formed VALUES (2);
+> insert formed (2)
DROP TABLE formed_too;
COMMIT;

## columns that change
CREATE TABLE altered (id int PRIMARY KEY, a int);
---
INSERT INTO altered VALUES (1, 1);
-> insert altered (1, 1)
COMMENT ON TABLE altered IS 'of no importance';
INSERT INTO altered VALUES (2, 2);
-> insert altered (2, 2)
ALTER TABLE altered ADD COLUMN b int DEFAULT 5;
INSERT INTO altered VALUES (3, 3, 3);
-> park altered
INSERT INTO altered VALUES (4, 4, 4);

## a table in the place of another
only: pgoutput
CREATE TABLE placed (id int PRIMARY KEY, v text);
---
INSERT INTO placed VALUES (1, 'a');
-> insert placed (1, 'a')
BEGIN;
ALTER TABLE placed RENAME TO placed_before;
CREATE TABLE placed (id int PRIMARY KEY, v text);
INSERT INTO placed VALUES (2, 'b');
COMMIT;
INSERT INTO placed_before VALUES (3, 'c');

## messages are no rows
CREATE TABLE messaged (id int PRIMARY KEY);
---
BEGIN;
SELECT pg_logical_emit_message(true, 'corpus', 'within');
INSERT INTO messaged VALUES (1);
-> insert messaged (1)
SELECT pg_logical_emit_message(false, 'corpus', 'beside');
COMMIT;
SELECT pg_logical_emit_message(true, 'corpus', 'alone');
