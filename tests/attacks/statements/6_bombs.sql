--! endless-recursion | bound
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c
--! endless-distinct-recursion | bound
WITH RECURSIVE c(n) AS (SELECT 1 UNION SELECT n + 1 FROM c) SELECT max(n) FROM c
--! endless-recursion-of-rows | bound
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c
--! doubling-recursion | bound
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c
--! growing-text-recursion | bound
WITH RECURSIVE c(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM c) SELECT max(length(x)) FROM c
--! wide-text-recursion | bound
WITH RECURSIVE c(n, x) AS (SELECT 1, printf('%900000s', 'x') UNION ALL SELECT n + 1, x || '' FROM c LIMIT 100000) SELECT * FROM c ORDER BY x, n
--! growing-distinct-texts | bound
WITH RECURSIVE c(n, x) AS (SELECT 1, printf('%900000s', 'x') UNION SELECT n + 1, n || substr(x, 10) FROM c) SELECT count(*) FROM c
--! sorted-flood | bound
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 100000000) SELECT n FROM c ORDER BY random()
--! grouped-flood | bound
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 100000000) SELECT n, count(*) FROM c GROUP BY n || 'x'
--! materialised-flood | bound
WITH RECURSIVE c(n, x) AS MATERIALIZED (SELECT 1, printf('%9000s', 1) UNION ALL SELECT n + 1, printf('%9000s', n) FROM c LIMIT 10000000) SELECT count(*) FROM c AS a JOIN c AS b ON a.x = b.x
--! cross-join | bound
SELECT count(*) FROM item a, item b, item c, item d, item e, item f
--! cross-join-of-rows | bound
SELECT * FROM item a, item b, item c, item d, item e, item f
--! cross-join-sorted | bound
SELECT a.id FROM item a, item b, item c, item d ORDER BY a.price * b.price, c.name, d.id
--! cross-join-distinct | bound
SELECT count(DISTINCT a.name || b.name || c.name || d.name) FROM item a, item b, item c, item d
--! cross-join-without-a-row | bound
SELECT 1 FROM item a, item b, item c, item d, item e WHERE a.id + b.id + c.id + d.id + e.id < 0
--! join-of-sixty-tables | bound
SELECT count(*) FROM item a1, item a2, item a3, item a4, item a5, item a6, item a7, item a8, item a9, item b1, item b2, item b3, item b4, item b5, item b6, item b7, item b8, item b9, item c1, item c2, item c3, item c4, item c5, item c6, item c7, item c8, item c9, item d1, item d2, item d3, item d4, item d5, item d6, item d7, item d8, item d9, item e1, item e2, item e3, item e4, item e5, item e6, item e7, item e8, item e9, item f1, item f2, item f3, item f4, item f5, item f6
--! correlated-subqueries | bound
SELECT count(*) FROM item a WHERE (SELECT count(*) FROM item b WHERE (SELECT count(*) FROM item c WHERE (SELECT count(*) FROM item d WHERE d.id <> c.id AND c.id <> b.id AND b.id <> a.id) > 0) > 0) > 0
--! union-chain | bound
SELECT count(*) FROM (SELECT a.id FROM item a, item b, item c UNION SELECT a.id + b.id * c.id FROM item a, item b, item c UNION SELECT -a.id * b.id - c.id FROM item a, item b, item c)
--! window-over-everything | bound
SELECT sum(a.price) OVER (ORDER BY a.id, b.id, c.id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) FROM item a, item b, item c
--! window-group-concat | bound
SELECT max(length(x)) FROM (SELECT group_concat(a.name) OVER (ORDER BY a.id, b.id) AS x FROM item a, item b)
--! printf-width | bound
SELECT printf('%900000000s', 'x')
--! printf-width-from-argument | bound
SELECT printf('%*s', 2000000000, 'x')
--! printf-character-repeat | bound
SELECT printf('%.2000000000c', 'x') || printf('%.2000000000c', 'y')
--! printf-precision | bound
SELECT printf('%.2000000000f', 1.0), printf('%.2000000000d', 1)
--! format-repeat | bound
SELECT length(format('%.900000000c', 'x'))
--! replace-blow-up | bound
SELECT length(replace(printf('%900000s', ''), ' ', printf('%900000s', '')))
--! replace-tower | bound
SELECT length(replace(replace(replace(replace('aaaaaaaaaa', 'a', 'aaaaaaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaa'))
--! replace-quadratic | bound
SELECT length(replace(printf('%900000s', ''), printf('%449999s', 'x'), 'y'))
--! concat-tower | bound
WITH a(x) AS (SELECT printf('%99999s', 'x')) SELECT x||x||x||x||x||x||x||x||x||x||x||x FROM a
--! group-concat-blow-up | bound
SELECT length(group_concat(printf('%9000s', a.name))) FROM item a, item b, item c
--! json-group-blow-up | bound
SELECT length(json_group_array(printf('%9000s', a.name))) FROM item a, item b, item c
--! json-object-blow-up | bound
SELECT length(json_group_object(a.name || b.name, c.name)) FROM item a, item b, item c
--! json-array-nest | bound
WITH RECURSIVE j(n, x) AS (SELECT 0, '[]' UNION ALL SELECT n + 1, json_array(json(x), json(x)) FROM j LIMIT 40) SELECT max(length(x)) FROM j
--! json-patch-tower | bound
WITH RECURSIVE j(n, x) AS (SELECT 0, '{}' UNION ALL SELECT n + 1, json_set(x, '$.a' || n, printf('%9000s', n)) FROM j) SELECT max(length(x)) FROM j
--! json-deep | bound
SELECT json_valid(replace(printf('%400000s', ''), ' ', '[') || replace(printf('%400000s', ''), ' ', ']'))
--! json-deep-objects | bound
SELECT json_extract(replace(printf('%150000s', ''), ' ', '{"a":') || '1' || replace(printf('%150000s', ''), ' ', '}'), '$.a.a.a')
--! json-each-of-a-wide-array | bound
SELECT count(*), max(fullkey) FROM json_tree('[' || replace(printf('%300000s', ''), ' ', '1,') || '1]') a
--! json-tree-joined | bound
SELECT count(*) FROM json_each('[' || replace(printf('%3000s', ''), ' ', '1,') || '1]') a, json_each('[' || replace(printf('%3000s', ''), ' ', '1,') || '1]') b, json_each('[1,2,3,4,5,6,7,8,9]') c
--! json-path-long | bound
SELECT json_extract('{}', '$' || replace(printf('%200000s', ''), ' ', '.a'))
--! json-quote-of-much | bound
SELECT length(json_quote(replace(printf('%900000s', ''), ' ', char(1))))
--! like-backtracking | bound
SELECT replace(printf('%9000s', ''), ' ', 'a') LIKE '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b'
--! like-backtracking-long | bound
SELECT replace(printf('%900000s', ''), ' ', 'a') LIKE '%a%a%a%a%a%a%a%b'
--! like-pattern-too-long | refuse
SELECT 'x' LIKE replace(printf('%90000s', ''), ' ', '%a')
--! glob-backtracking | bound
SELECT replace(printf('%90000s', ''), ' ', 'a') GLOB '*a*a*a*a*a*a*a*a*a*[b]'
--! glob-classes | bound
SELECT replace(printf('%900000s', ''), ' ', 'a') GLOB '*[a-z]*[a-z]*[a-z]*[a-z]*[0-9]'
--! instr-quadratic | bound
SELECT instr(replace(printf('%900000s', ''), ' ', 'a'), replace(printf('%449999s', ''), ' ', 'a') || 'b')
--! trim-quadratic | bound
SELECT length(trim(replace(printf('%900000s', ''), ' ', 'b'), replace(printf('%900000s', ''), ' ', 'a') || 'b'))
--! trim-many | bound
SELECT count(*) FROM item a, item b WHERE length(rtrim(printf('%99999s', 'x'), printf('%99999s', 'y'))) > a.id
--! upper-in-a-loop | bound
SELECT count(*) FROM item a, item b, item c WHERE upper(printf('%900000s', a.id)) = lower(printf('%900000s', b.id))
--! soundex-and-hex | bound
SELECT count(*) FROM item a, item b WHERE soundex(hex(printf('%400000s', a.id))) = hex(hex(printf('%200000s', b.id)))
--! unhex-and-unicode | bound
SELECT max(length(hex(hex(hex(hex(hex(printf('%30000s', a.id))))))))  FROM item a
--! quote-doubling | bound
SELECT length(quote(quote(quote(quote(quote(replace(printf('%60000s', ''), ' ', char(39))))))))
--! big-number-texts | bound
SELECT CAST(replace(printf('%900000s', ''), ' ', '9') AS REAL), CAST(replace(printf('%900000s', ''), ' ', '9') AS INTEGER)
--! sum-of-number-texts | bound
SELECT sum(replace(printf('%900000s', ''), ' ', '9')) FROM item a, item b
--! date-of-long-texts | bound
SELECT count(strftime(replace(printf('%400000s', ''), ' ', '%f'), 'now')) FROM item a, item b
--! strftime-blow-up | bound
SELECT length(strftime(replace(printf('%300000s', ''), ' ', '%s'), 'now'))
--! char-and-unicode | bound
SELECT max(unicode(char(a.id * 1000)) + length(char(b.id))) FROM item a, item b, item c
--! math-without-end | bound
SELECT sum(pow(exp(ln(a.id + 2)), tanh(b.id)) + mod(c.id, 7)) FROM item a, item b, item c, item d
--! percentiles-of-much | bound
SELECT avg(a.price), total(b.price), max(c.name), min(d.name) FROM item a, item b, item c, item d
--! flood-of-rows | bound
SELECT a.id, b.id FROM item a, item b, item c
--! flood-of-bytes | bound
SELECT printf('%100000s', a.id) FROM item a, item b
--! flood-of-blobs | bound
SELECT CAST(printf('%900000s', a.id) AS BLOB) FROM item a, item b
--! flood-of-control-characters | bound
SELECT replace(printf('%9000s', ''), ' ', char(1)) FROM item a, item b
--! flood-of-wide-characters | bound
SELECT replace(printf('%9000s', ''), ' ', char(128512)) FROM item a, item b
--! flood-of-nulls | bound
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM item a, item b, item c
--! one-huge-row | bound
WITH a(x) AS (SELECT printf('%999000s', 'x')) SELECT x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x FROM a
--! big-cell-then-nothing | bound
SELECT printf('%999999s', 'x')
--! offset-flood | bound
SELECT a.id FROM item a, item b, item c, item d LIMIT 1 OFFSET 9223372036854775806
--! in-flood | bound
SELECT count(*) FROM item a, item b, item c WHERE a.id IN (SELECT x.id * y.id FROM item x, item y, item z)
--! exists-flood | bound
SELECT count(*) FROM item a WHERE NOT EXISTS (SELECT 1 FROM item b, item c, item d WHERE b.id + c.id + d.id = -a.id - 1)
--! order-by-random-flood | bound
SELECT a.name, b.name, c.name FROM item a, item b, item c ORDER BY random() LIMIT 5
--! sudoku | bound
WITH RECURSIVE x(s, ind) AS (SELECT printf('%.81c', '.'), 1 UNION ALL SELECT substr(s, 1, ind - 1) || z || substr(s, ind + 1), instr(substr(s, 1, ind - 1) || z || substr(s, ind + 1), '.') FROM x, (SELECT id AS z FROM item WHERE id < 10) AS d WHERE ind > 0) SELECT count(*) FROM x
--! mandelbrot | bound
WITH RECURSIVE m(iter, cx, cy, x, y) AS (SELECT 0, -1.0, 0.1, 0.0, 0.0 UNION ALL SELECT iter + 1, cx, cy, x * x - y * y + cx, 2.0 * x * y + cy FROM m) SELECT max(iter) FROM m
