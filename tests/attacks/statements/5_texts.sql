--! two-statements | refuse
SELECT 1; SELECT 2
--! read-then-drop | refuse
SELECT 1; DROP TABLE item
--! drop-behind-a-comment | refuse
SELECT 1 /* ; */; -- harmless
DROP TABLE item
--! drop-behind-many-semicolons | refuse
SELECT 1;;;;; DROP TABLE item
--! comment-hides-a-write | refuse
/* SELECT 1 */ DELETE FROM item -- SELECT
--! version-comment | refuse
SELECT 1 /*!50000 FROM item; DROP TABLE item */; DROP TABLE item
--! unclosed-comment | bound
SELECT 1 /* DROP TABLE item
--! unclosed-string | refuse
SELECT 'x FROM item
--! unclosed-identifier | refuse
SELECT "x FROM item
--! unclosed-bracket | refuse
SELECT [x FROM item
--! only-a-comment | refuse
-- nothing
--! only-semicolons | refuse
;;;;
--! prose | refuse
Sure! Here is the query you asked for: SELECT * FROM item;
--! markdown | refuse
```sql
SELECT * FROM item
```
--! fullwidth-semicolon | refuse
SELECT 1； DROP TABLE item
--! fullwidth-keyword | refuse
ＤＥＬＥＴＥ FROM item
--! turkish-keyword | refuse
ınsert INTO item VALUES (1, 'x', 1)
--! control-characters-as-cells | bound
SELECT char(0), char(1, 2, 3), char(27) || '[2J', x'00ff', CAST(x'ff00fe' AS TEXT)
--! odd-column-names | bound
SELECT 1 AS "", 2 AS "a""b", 3 AS "
", 4 AS "{{""$blob"": 1}}"
--! frame-in-a-cell | bound
SELECT char(0, 0, 0, 2) || '{}', x'0000000200000000'
--! result-that-looks-like-an-answer | bound
SELECT '{"status": "ok", "id": 99}' AS status
--! infinities | bound
SELECT 9e999, -9e999, 9e999 - 9e999, 0.0 / 0
--! integer-overflow | refuse
SELECT sum(n) FROM (SELECT 9223372036854775807 AS n UNION ALL SELECT 1)
--! abs-of-the-smallest-integer | refuse
SELECT abs(-9223372036854775808)
--! shift-by-a-lot | bound
SELECT 1 << 9223372036854775807, 1 >> -9223372036854775808, -1 % -1, 1 / 0, 1 % 0
--! smallest-by-minus-one | bound
SELECT -9223372036854775808 / -1, -9223372036854775808 % -1, CAST(1e300 AS INTEGER)
--! dates-far-away | bound
SELECT date('now', '+999999999999 years'), strftime('%f', 1e308), julianday('-4714-11-24'), datetime(9e18, 'unixepoch')
--! date-modifiers | bound
SELECT date('now', 'start of month', '+1 month', '-1 day', 'weekday 9', 'localtime', 'utc', 'auto', 'subsec')
--! formats | bound
SELECT printf('%n%s%q%Q%w%z%p%*d%-*d%!.20f', 'a', 'b', 'c', 'd', 5, 1, 5, 1, 1.0), printf('%'), printf('%5')
--! substr-at-the-edges | bound
SELECT substr('abc', -9223372036854775808, 9223372036854775807), substr(x'00', 9223372036854775807, -1)
--! window-frames-at-the-edges | bound
SELECT sum(price) OVER (ORDER BY id ROWS BETWEEN 9223372036854775807 PRECEDING AND 9223372036854775807 FOLLOWING) FROM item LIMIT 3
--! negative-window-frame | refuse
SELECT sum(price) OVER (ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) FROM item
--! nth-value-of-zero | refuse
SELECT nth_value(name, 0) OVER () FROM item
--! ntile-of-nothing | refuse
SELECT ntile(0) OVER () FROM item
--! limit-of-text | refuse
SELECT name FROM item LIMIT 'many'
--! order-by-absent-position | refuse
SELECT name FROM item ORDER BY 99
--! collation-absent | refuse
SELECT name FROM item ORDER BY name COLLATE evil
--! json-path-tricks | bound
SELECT json_extract('{"a":[1,2]}', '$.a[#-1]'), '[1]' -> -1, json_type('null'), json_valid('')
--! broken-json | refuse
SELECT json_extract('{', '$')
--! rowid-and-schema | bound
SELECT rowid, _rowid_, oid FROM item LIMIT 1
--! schema-is-readable | bound
SELECT name, sql FROM sqlite_master
--! recursion-without-end-condition | bound
WITH RECURSIVE c(n) AS (VALUES (1) UNION SELECT n FROM c) SELECT * FROM c
--! circular-cte | refuse
WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a
--! cte-shadows-a-table | bound
WITH item AS (SELECT 1 AS id) SELECT * FROM item
--! select-into | refuse
SELECT * INTO fresh FROM item
--! for-update | refuse
SELECT * FROM item FOR UPDATE
--! grant | refuse
GRANT ALL ON item TO public
--! set-variable | refuse
SET sql_log_bin = 0
--! call | refuse
CALL evil()
--! handler | refuse
DO $$ BEGIN DELETE FROM item; END $$
--! values | bound
VALUES (1), (2)
--! values-and-write | refuse
VALUES (1); DELETE FROM item
--! indexed-by | refuse
SELECT * FROM item INDEXED BY absent
--! index-is-used | bound
SELECT name FROM item INDEXED BY item_name WHERE name = 'n1'
