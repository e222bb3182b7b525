--! create-fts5 | refuse
CREATE VIRTUAL TABLE fresh USING fts5(a)
--! create-fts3-tokenizer | refuse
CREATE VIRTUAL TABLE temp.fresh USING fts3(a, tokenize = simple)
--! create-rtree | refuse
CREATE VIRTUAL TABLE fresh USING rtree(a, b, c)
--! create-dbstat | refuse
CREATE VIRTUAL TABLE temp.fresh USING dbstat(main)
--! create-fts5vocab | refuse
CREATE VIRTUAL TABLE temp.fresh USING fts5vocab('main', 'item', 'row')
--! create-virtual-json | refuse
CREATE VIRTUAL TABLE temp.fresh USING json_each
--! drop-modules | refuse
DROP TABLE temp.json_each
--! dbstat | refuse
SELECT * FROM dbstat
--! dbstat-count | refuse
SELECT count(*) FROM dbstat
--! dbstat-exists | refuse
SELECT EXISTS (SELECT 1 FROM dbstat)
--! sqlite-stmt | refuse
SELECT sql FROM sqlite_stmt
--! sqlite-stmt-count | refuse
SELECT count(*) FROM sqlite_stmt
--! fts3tokenize | refuse
SELECT * FROM fts3tokenize('simple', 'a b c')
--! fts3tokenize-count | refuse
SELECT count(*) FROM fts3tokenize('simple')
--! sqlite-dbpage | refuse
SELECT data FROM sqlite_dbpage
--! sqlite-dbdata | refuse
SELECT * FROM sqlite_dbdata
--! bytecode | refuse
SELECT * FROM bytecode('SELECT 1')
--! tables-used | refuse
SELECT * FROM tables_used('SELECT 1')
--! generate-series | refuse
SELECT * FROM generate_series(1, 1000000000)
--! carray | refuse
SELECT * FROM carray(1, 100000)
--! rtreecheck | refuse
SELECT rtreecheck('main', 'item')
--! rtreenode | refuse
SELECT rtreenode(2, zeroblob(100))
--! randomblob | refuse
SELECT randomblob(900000000)
--! zeroblob | refuse
SELECT zeroblob(900000000)
--! hex-of-zeroblob | refuse
SELECT hex(zeroblob(400000000))
--! source-id | refuse
SELECT sqlite_source_id()
--! version | refuse
SELECT sqlite_version()
--! compile-option | refuse
SELECT sqlite_compileoption_get(1)
--! changes | refuse
SELECT changes(), total_changes(), last_insert_rowid()
--! unknown-function | refuse
SELECT sleep(1000)
--! pg-sleep | refuse
SELECT pg_sleep(1000)
--! benchmark | refuse
SELECT benchmark(1000000000, 1)
--! regexp-operator | refuse
SELECT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' REGEXP '^(a+)+$'
--! match-operator | refuse
SELECT name FROM item WHERE name MATCH 'a'
--! hidden-function-in-order-by | refuse
SELECT name FROM item ORDER BY randomblob(1)
--! hidden-function-in-case | refuse
SELECT CASE WHEN 0 THEN load_extension('x') END
--! hidden-function-in-filter | refuse
SELECT count(*) FILTER (WHERE sqlite_log(1, 'x') IS NULL) FROM item
--! hidden-function-in-window | refuse
SELECT sum(price) OVER (PARTITION BY zeroblob(9)) FROM item
--! hidden-function-in-limit | refuse
SELECT name FROM item LIMIT (SELECT length(randomblob(5)))
--! hidden-function-quoted | refuse
SELECT "load_extension"('x')
--! hidden-function-in-json | refuse
SELECT json_object('a', randomblob(100))
--! function-from-a-view | refuse
SELECT * FROM trap
--! pragma-from-a-view | refuse
SELECT * FROM trap_pragma
--! bound-parameter | refuse
SELECT name FROM item WHERE id = ?
--! named-parameter | refuse
SELECT name FROM item WHERE id = :id
--! numbered-parameter | refuse
SELECT ?32766
