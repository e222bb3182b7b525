--! attach-new-file | refuse
ATTACH '{folder}/fresh.sqlite' AS other
--! attach-relative-file | refuse
ATTACH 'fresh.sqlite' AS other
--! attach-secret | refuse
ATTACH DATABASE '{secret}' AS other
--! attach-uri | refuse
ATTACH 'file:{folder}/fresh.sqlite?mode=rwc' AS other
--! attach-uri-traversal | refuse
ATTACH 'file:../../../../{folder}/fresh.sqlite?mode=rwc&cache=shared' AS other
--! attach-memory | refuse
ATTACH ':memory:' AS other
--! attach-temporary | refuse
ATTACH '' AS other
--! attach-itself-writable | refuse
ATTACH 'file:{database}?mode=rw' AS other
--! attach-device | refuse
ATTACH '/dev/zero' AS other
--! attach-computed-name | refuse
ATTACH (SELECT '{folder}/' || name || '.sqlite' FROM item LIMIT 1) AS other
--! attach-with-key | refuse
ATTACH '{folder}/fresh.sqlite' AS other KEY 'x'
--! detach-main | refuse
DETACH main
--! detach | refuse
DETACH DATABASE other
--! vacuum-into | refuse
VACUUM INTO '{folder}/copy.sqlite'
--! vacuum-main-into | refuse
VACUUM main INTO '{folder}/copy.sqlite'
--! vacuum-into-relative | refuse
VACUUM INTO 'copy.sqlite'
--! vacuum-into-uri | refuse
VACUUM INTO 'file:{folder}/copy.sqlite?mode=rwc'
--! vacuum-into-computed | refuse
VACUUM INTO (SELECT '{folder}/' || 'copy.sqlite')
--! readfile | refuse
SELECT readfile('{text}')
--! writefile | refuse
SELECT writefile('{folder}/fresh.txt', 'x')
--! edit | refuse
SELECT edit('x', 'touch {folder}/fresh.txt')
--! lsdir | refuse
SELECT * FROM lsdir('{folder}')
--! fsdir | refuse
SELECT * FROM fsdir('/')
--! csv-module | refuse
CREATE VIRTUAL TABLE fresh USING csv(filename = '{text}')
--! zipfile-module | refuse
CREATE VIRTUAL TABLE fresh USING zipfile('{folder}/fresh.zip')
--! other-schema-name | refuse
SELECT * FROM other.sqlite_master
--! temp-schema-table | refuse
SELECT * FROM sqlite_temp_master
--! load-extension | refuse
SELECT load_extension('libc.so.6')
--! load-extension-with-entry | refuse
SELECT load_extension('{folder}/evil.so', 'sqlite3_extension_init')
--! load-extension-in-where | refuse
SELECT name FROM item WHERE load_extension('{folder}/evil') IS NULL
--! fts3-tokenizer-read | refuse
SELECT hex(fts3_tokenizer('simple'))
--! fts3-tokenizer-write | refuse
SELECT fts3_tokenizer('evil', x'4141414141414141')
--! fts5-pointer | refuse
SELECT fts5(NULL)
--! sqlite-log | refuse
SELECT sqlite_log(1, 'spam')
--! shell-command | refuse
.shell touch {folder}/fresh.txt
--! shell-output | refuse
.output {folder}/fresh.txt
--! shell-import | refuse
.import {text} item
--! copy-from-program | refuse
COPY item TO PROGRAM 'touch {folder}/fresh.txt'
--! into-outfile | refuse
SELECT * FROM item INTO OUTFILE '{folder}/fresh.txt'
--! load-file | refuse
SELECT load_file('{text}')
--! pg-read-file | refuse
SELECT pg_read_file('{text}')
--! xp-cmdshell | refuse
EXEC xp_cmdshell 'id'
--! duckdb-read-text | refuse
SELECT * FROM read_text('{text}')
--! duckdb-file-as-table | refuse
SELECT * FROM '{text}'
