--! insert | refuse
INSERT INTO item VALUES (9999, 'x', 1)
--! insert-select | refuse
INSERT INTO item SELECT id + 100000, name, price FROM item
--! insert-returning | refuse
INSERT INTO item VALUES (9998, 'x', 1) RETURNING *
--! insert-default-values | refuse
INSERT INTO item DEFAULT VALUES
--! insert-or-replace | refuse
INSERT OR REPLACE INTO item VALUES (1, 'gone', 0)
--! replace | refuse
REPLACE INTO item VALUES (1, 'gone', 0)
--! upsert | refuse
INSERT INTO item VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET name = 'gone'
--! update | refuse
UPDATE item SET name = 'gone'
--! update-from | refuse
UPDATE item SET name = other.name FROM item AS other WHERE other.id = item.id + 1
--! update-returning | refuse
UPDATE item SET price = 0 RETURNING id
--! delete | refuse
DELETE FROM item
--! delete-limit | refuse
DELETE FROM item ORDER BY id LIMIT 1
--! with-delete | refuse
WITH doomed AS (SELECT id FROM item) DELETE FROM item WHERE id IN (SELECT id FROM doomed)
--! with-insert | refuse
WITH more(n) AS (VALUES (7001), (7002)) INSERT INTO item SELECT n, 'x', 0 FROM more
--! with-update | refuse
WITH t AS (SELECT 1) UPDATE item SET name = 'gone' WHERE 1 IN t
--! with-recursive-delete | refuse
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 9) DELETE FROM item WHERE id IN c
--! delete-of-nothing | refuse
DELETE FROM item WHERE 0
--! write-to-schema-table | refuse
UPDATE sqlite_master SET sql = 'CREATE TABLE item (broken)'
--! write-to-sequence | refuse
INSERT INTO sqlite_sequence VALUES ('item', 1)
--! write-through-view | refuse
INSERT INTO cheap VALUES (5000, 'x')
--! drop-table | refuse
DROP TABLE item
--! drop-table-if-exists | refuse
DROP TABLE IF EXISTS item
--! drop-view | refuse
DROP VIEW cheap
--! drop-index | refuse
DROP INDEX item_name
--! create-table | refuse
CREATE TABLE fresh (a)
--! create-table-as | refuse
CREATE TABLE fresh AS SELECT * FROM item
--! create-if-not-exists | refuse
CREATE TABLE IF NOT EXISTS fresh (a)
--! create-index | refuse
CREATE INDEX fresh ON item (price)
--! create-unique-index | refuse
CREATE UNIQUE INDEX fresh ON item (id)
--! create-view | refuse
CREATE VIEW fresh AS SELECT 1
--! create-trigger | refuse
CREATE TRIGGER fresh AFTER INSERT ON item BEGIN DELETE FROM item; END
--! alter-rename | refuse
ALTER TABLE item RENAME TO gone
--! alter-add | refuse
ALTER TABLE item ADD COLUMN fresh TEXT
--! alter-drop | refuse
ALTER TABLE item DROP COLUMN price
--! alter-rename-column | refuse
ALTER TABLE item RENAME COLUMN price TO gone
--! reindex | refuse
REINDEX
--! analyze | refuse
ANALYZE
--! analyze-table | refuse
ANALYZE item
--! vacuum | refuse
VACUUM
--! begin | refuse
BEGIN
--! begin-exclusive | refuse
BEGIN EXCLUSIVE
--! begin-immediate | refuse
BEGIN IMMEDIATE TRANSACTION
--! commit | refuse
COMMIT
--! rollback | refuse
ROLLBACK
--! savepoint | refuse
SAVEPOINT a
--! release | refuse
RELEASE a
--! create-temp-table | refuse
CREATE TEMP TABLE fresh AS SELECT * FROM item
--! create-temp-view | refuse
CREATE TEMP VIEW item AS SELECT 1 AS id
--! create-temp-trigger | refuse
CREATE TEMP TRIGGER fresh AFTER INSERT ON item BEGIN SELECT 1; END
--! create-temp-index | refuse
CREATE INDEX temp.fresh ON item (name)
--! insert-into-temp-schema | refuse
INSERT INTO temp.sqlite_temp_master VALUES ('table', 'a', 'a', 0, 'CREATE TABLE a (b)')
--! explain-of-a-write-stays-an-explanation | refuse
EXPLAIN DELETE FROM item
--! explain-query-plan-of-a-write | refuse
EXPLAIN QUERY PLAN UPDATE item SET name = 'gone'
