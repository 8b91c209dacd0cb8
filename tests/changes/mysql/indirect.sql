# Changes that nobody wrote down as such: triggers, procedures, functions, foreign keys, views, prepared statements.

## triggers write rows of their own
CREATE TABLE trig (id INT PRIMARY KEY, v VARCHAR(5));
CREATE TABLE trig_log (n INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20));
CREATE TRIGGER trig_before BEFORE INSERT ON trig FOR EACH ROW SET NEW.v = UPPER(NEW.v);
CREATE TRIGGER trig_after AFTER UPDATE ON trig FOR EACH ROW INSERT INTO trig_log (what) VALUES (CONCAT(OLD.v, '->', NEW.v));
---
INSERT INTO trig VALUES (1, 'a'), (2, 'b');
-> insert trig (1, 'A')
+> insert trig (2, 'B')
UPDATE trig SET v = 'c' WHERE id = 2;
-> update trig (2, 'B') to (2, 'c')
+> insert trig_log (1, 'B->c')

## procedures, functions, variables, prepared statements
CREATE TABLE proc (id INT PRIMARY KEY, v INT);
CREATE PROCEDURE put(IN a INT, IN b INT) BEGIN
  INSERT INTO proc VALUES (a, b);
  UPDATE proc SET v = v + 1;
END;
---
CALL put(1, 10);
-> insert proc (1, 10)
-> update proc (1, 10) to (1, 11)
BEGIN;
CALL put(2, 20);
-> insert proc (2, 20)
+> update proc (1, 11) to (1, 12)
+> update proc (2, 20) to (2, 21)
COMMIT;
SET @id = 3, @v = 30;
PREPARE ins FROM 'INSERT INTO proc VALUES (?, ?)';
EXECUTE ins USING @id, @v;
-> insert proc (3, 30)
DEALLOCATE PREPARE ins;

## values that only the moment gives
CREATE TABLE moment (id INT PRIMARY KEY, r DOUBLE, at TIMESTAMP NULL, u CHAR(36));
---
SET SESSION timestamp = 1700000000;
INSERT INTO moment VALUES (1, SQRT(2), NOW(), 'fixed');
-> insert moment (1, 1.4142135623730951, '2023-11-14 22:13:20.000000+00', 'fixed')
SET @u = UUID();
INSERT INTO moment SELECT 2, NULL, NULL, IF(UUID() <> @u, 'other', 'same');
-> insert moment (2, NULL, NULL, 'other')

## foreign keys: what they change is not in the log, the parent's change is
before: 9
CREATE TABLE par (id INT PRIMARY KEY);
CREATE TABLE chi (id INT PRIMARY KEY, par INT, FOREIGN KEY (par) REFERENCES par (id) ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO par VALUES (1), (2);
INSERT INTO chi VALUES (1, 1), (2, 2);
---
DELETE FROM par WHERE id = 1;
-> delete par (1)
UPDATE par SET id = 20 WHERE id = 2;
-> update par (2) to (20)
INSERT INTO chi VALUES (3, 3);
-> error 1452

## a view is not a table
CREATE TABLE based (id INT PRIMARY KEY, v INT, hidden INT DEFAULT 9);
CREATE VIEW shown AS SELECT id, v FROM based WHERE v > 0 WITH CHECK OPTION;
---
INSERT INTO shown VALUES (1, 1);
-> insert based (1, 1, 9)
UPDATE shown SET v = 2;
-> update based (1, 1, 9) to (1, 2, 9)
INSERT INTO shown VALUES (2, 0);
-> error 1369
DELETE FROM shown;
-> delete based (1, 2, 9)

## generated columns carry what the source computed
needs: generated columns
CREATE TABLE gen (id INT PRIMARY KEY, a INT, s INT AS (a + 1) STORED, v INT AS (a * 2) VIRTUAL, z INT);
---
INSERT INTO gen (id, a, z) VALUES (1, 5, 0);
-> insert gen (1, 5, 6, 10, 0)
UPDATE gen SET a = NULL;
-> update gen (1, 5, 6, 10, 0) to (1, NULL, NULL, NULL, 0)

## temporary tables are nobody's business
CREATE TABLE perm (id INT PRIMARY KEY);
---
CREATE TEMPORARY TABLE temp (id INT PRIMARY KEY);
INSERT INTO temp VALUES (1), (2);
INSERT INTO perm SELECT id + 10 FROM temp;
-> insert perm (11)
+> insert perm (12)
DROP TEMPORARY TABLE temp;

## a temporary table hides one that is there
CREATE TABLE hidden_one (id INT PRIMARY KEY);
---
CREATE TEMPORARY TABLE hidden_one (id INT PRIMARY KEY, v INT);
INSERT INTO hidden_one VALUES (1, 1);
DROP TEMPORARY TABLE hidden_one;
INSERT INTO hidden_one VALUES (2);
-> insert hidden_one (2)
