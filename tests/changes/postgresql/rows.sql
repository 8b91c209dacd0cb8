# Inserts, updates and deletes of every shape: what each writes to the log.

## inserts of one and several rows
CREATE TABLE ins (id serial PRIMARY KEY, v varchar(10) DEFAULT 'none', n int);
---
INSERT INTO ins VALUES (1, 'a', 1);
-> insert ins (1, 'a', 1)
INSERT INTO ins VALUES (2, 'b'), (3, 'c''d'), (4, NULL);
-> insert ins (2, 'b', NULL)
+> insert ins (3, 'c''d', NULL)
+> insert ins (4, NULL, NULL)
INSERT INTO ins (id, n) VALUES (5, -7);
-> insert ins (5, 'none', -7)
INSERT INTO ins SELECT id + 100, v, n + 100 FROM ins WHERE id IN (1, 5) ORDER BY id;
-> insert ins (101, 'a', 101)
+> insert ins (105, 'none', 93)
SELECT setval('ins_id_seq', 200);
INSERT INTO ins DEFAULT VALUES;
-> insert ins (201, 'none', NULL)
INSERT INTO ins SELECT * FROM ins WHERE id > 1000;

## inserts that are refused or left out
CREATE TABLE dup (id int PRIMARY KEY, u int UNIQUE);
INSERT INTO dup VALUES (1, 1);
---
INSERT INTO dup VALUES (2, 2), (1, 3);
-> error 23505
INSERT INTO dup VALUES (3, 3), (1, 4), (4, 1), (5, 5) ON CONFLICT DO NOTHING;
-> insert dup (3, 3)
+> insert dup (5, 5)
INSERT INTO dup VALUES (6, 'six');
-> error 22P02

## on conflict do update
CREATE TABLE odu (id int PRIMARY KEY, u int UNIQUE, n int);
INSERT INTO odu VALUES (1, 1, 0), (2, 2, 0);
---
INSERT INTO odu VALUES (1, 5, 9), (3, 3, 3) ON CONFLICT (id) DO UPDATE SET n = odu.n + 1;
-> update odu (1, -, -) to (1, 1, 1)
+> insert odu (3, 3, 3)
INSERT INTO odu VALUES (7, 2, 9) ON CONFLICT (u) DO UPDATE SET n = excluded.n, id = 20;
-> update odu (2, -, -) to (20, 2, 9)
INSERT INTO odu VALUES (3, 3, 3) ON CONFLICT (id) DO UPDATE SET n = 3;
-> update odu (3, -, -) to (3, 3, 3)
INSERT INTO odu VALUES (3, 3, 4) ON CONFLICT (id) DO UPDATE SET n = 4 WHERE odu.n > 100;
INSERT INTO odu VALUES (8, 8, 8), (8, 9, 9) ON CONFLICT (id) DO UPDATE SET n = 0;
-> error 21000

## updates: the whole row after, and of the row before its key; also where nothing changes
CREATE TABLE upd (id int PRIMARY KEY, v varchar(10), n int);
INSERT INTO upd VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3);
---
UPDATE upd SET n = n * 10 WHERE id > 1;
-> update upd (2, -, -) to (2, 'b', 20)
+> update upd (3, -, -) to (3, NULL, 30)
UPDATE upd SET v = 'a' WHERE id = 1;
-> update upd (1, -, -) to (1, 'a', 1)
UPDATE upd SET v = NULL, n = NULL WHERE id = 1;
-> update upd (1, -, -) to (1, NULL, NULL)
UPDATE upd SET v = '' WHERE id = 1;
-> update upd (1, -, -) to (1, '', NULL)
UPDATE upd SET n = 0 WHERE id = 99;
UPDATE upd SET (v, n) = (SELECT 'two', max(id) FROM upd) WHERE id = 2;
-> update upd (2, -, -) to (2, 'two', 3)

## keys that change, shift and swap
CREATE TABLE keyed (id int PRIMARY KEY DEFERRABLE, u int);
ALTER TABLE keyed REPLICA IDENTITY FULL;
INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3);
---
UPDATE keyed SET id = 10 WHERE id = 1;
-> update keyed (1, 1) to (10, 1)
UPDATE keyed SET id = id + 1 WHERE id IN (2, 3);
-> update keyed (2, 2) to (3, 2)
+> update keyed (3, 3) to (4, 3)
UPDATE keyed SET id = CASE id WHEN 3 THEN 4 ELSE 3 END WHERE id IN (3, 4);
-> update keyed (3, 2) to (4, 2)
+> update keyed (4, 3) to (3, 3)

## a key of several columns, in another order than theirs
CREATE TABLE compound (a int, v text, b text, PRIMARY KEY (b, a));
---
INSERT INTO compound VALUES (1, 'v', 'x');
-> insert compound (1, 'v', 'x')
UPDATE compound SET v = 'w';
-> update compound (1, -, 'x') to (1, 'w', 'x')
UPDATE compound SET b = 'y';
-> update compound (1, -, 'x') to (1, 'w', 'y')
DELETE FROM compound;
-> delete compound (1, -, 'y')

## deletes
CREATE TABLE del (id int PRIMARY KEY, v text);
CREATE TABLE del_of (id int);
INSERT INTO del VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e');
INSERT INTO del_of VALUES (3);
---
DELETE FROM del WHERE id = 1;
-> delete del (1, -)
DELETE FROM del WHERE v = 'b' RETURNING *;
-> delete del (2, -)
DELETE FROM del USING del_of WHERE del.id = del_of.id;
-> delete del (3, -)
DELETE FROM del WHERE id = 99;
WITH gone AS (DELETE FROM del WHERE id = 4 RETURNING *) INSERT INTO del SELECT id + 40, v FROM gone;
-> delete del (4, -)
+> insert del (44, 'd')
DELETE FROM ONLY del;
-> delete del (5, -)
+> delete del (44, -)

## texts, bytes and numbers as they are
CREATE TABLE vals (id int PRIMARY KEY, t text, b bytea, n numeric, f double precision, o boolean, c char(4));
---
INSERT INTO vals VALUES (1, E'tab\tnl\nback\\', '\x00ff', 1.50, 0.1, true, ' a');
-> insert vals (1, 'tab\tnl\nback\\', '\\x00ff', '1.50', 0.1, 't', ' a  ')
INSERT INTO vals VALUES (2, '', '', 0, 1e300, false, '');
-> insert vals (2, '', '\\x', '0', 1e+300, 'f', '    ')
INSERT INTO vals VALUES (3, 'NULL', NULL, -1e20, '-0', NULL, NULL);
-> insert vals (3, 'NULL', NULL, '-100000000000000000000', -0, NULL, NULL)

## no numbers, infinite ones and NULL
needs: NULL for NULL alone
CREATE TABLE odd_numbers (id int PRIMARY KEY, n numeric, f double precision, r real, d date, at timestamptz);
---
INSERT INTO odd_numbers VALUES (1, 'NaN', '-Infinity', 'NaN', 'infinity', '-infinity'), (2, NULL, NULL, NULL, NULL, NULL);
-> insert odd_numbers (1, 'NaN', -inf, nan, 'infinity', '-infinity')
+> insert odd_numbers (2, NULL, NULL, NULL, NULL, NULL)

## no numbers, infinite ones and NULL: an old wal2json writes NULL for all of them, and the table parks
only: wal2json
CREATE TABLE odd_numbers (id int PRIMARY KEY, n numeric, f double precision, d date);
---
INSERT INTO odd_numbers VALUES (1, 1, 1, 'infinity');
-> insert odd_numbers (1, '1', 1, 'infinity')
INSERT INTO odd_numbers VALUES (2, NULL, 1);
-> park odd_numbers
INSERT INTO odd_numbers VALUES (3, 1, 1);

## arrays, enums, domains, composites, ranges
CREATE TYPE rows_mood AS ENUM ('sad', 'it''s ok');
CREATE DOMAIN rows_price AS numeric(8, 2) CHECK (VALUE >= 0);
CREATE TYPE rows_place AS (x int, y text);
CREATE TABLE kinds (id int PRIMARY KEY, m rows_mood, p rows_price, c rows_place, a int[], t text[], r int4range, d rows_mood[]);
---
INSERT INTO kinds VALUES (1, 'it''s ok', 1.5, (1, 'a b'), '{{1,NULL},{3,4}}', '{a,"b,c",NULL}', '[1,5]', '{sad}');
-> insert kinds (1, 'it''s ok', '1.50', '(1,"a b")', '{{1,NULL},{3,4}}', '{a,"b,c",NULL}', '[1,6)', '{sad}')
UPDATE kinds SET a[1:1][1:2] = '{{7,8}}', c.y = NULL, r = 'empty';
-> update kinds (1, -, -, -, -, -, -, -) to (1, 'it''s ok', '1.50', '(1,)', '{{7,8},{3,4}}', '{a,"b,c",NULL}', 'empty', '{sad}')
INSERT INTO kinds (id, m) VALUES (2, 'glad');
-> error 22P02
INSERT INTO kinds (id, p) VALUES (3, -1);
-> error 23514

## names that need quotes
CREATE TABLE "Od.d, '*\ T" ("K e" int PRIMARY KEY, "sel""ect" text);
---
INSERT INTO "Od.d, '*\ T" VALUES (1, 'a');
-> insert Od.d, '*\ T (1, 'a')
UPDATE "Od.d, '*\ T" SET "K e" = 2;
-> update Od.d, '*\ T (1, -) to (2, 'a')

## columns that were dropped
CREATE TABLE holed (a int, id int PRIMARY KEY, b int, c text);
ALTER TABLE holed DROP COLUMN a;
ALTER TABLE holed DROP COLUMN b;
ALTER TABLE holed ADD COLUMN d int DEFAULT 7;
---
INSERT INTO holed VALUES (1, 'c');
-> insert holed (1, 'c', 7)
DELETE FROM holed;
-> delete holed (1, -, -)
