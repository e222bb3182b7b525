--! query-only-off | refuse
PRAGMA query_only = 0
--! writable-schema | refuse
PRAGMA writable_schema = 1
--! journal-mode-wal | refuse
PRAGMA journal_mode = WAL
--! journal-mode-read | refuse
PRAGMA journal_mode
--! journal-mode-call | refuse
PRAGMA main.journal_mode(DELETE)
--! temp-store-file | refuse
PRAGMA temp_store = FILE
--! temp-store-directory | refuse
PRAGMA temp_store_directory = '{folder}'
--! data-store-directory | refuse
PRAGMA data_store_directory = '{folder}'
--! mmap-size | refuse
PRAGMA mmap_size = 100000000000
--! cache-size | refuse
PRAGMA cache_size = -100000000
--! hard-heap-limit | refuse
PRAGMA hard_heap_limit = 0
--! soft-heap-limit | refuse
PRAGMA soft_heap_limit = 1
--! trusted-schema | refuse
PRAGMA trusted_schema = ON
--! user-version | refuse
PRAGMA user_version = 7
--! application-id | refuse
PRAGMA application_id = 7
--! schema-version | refuse
PRAGMA schema_version = 7
--! page-size | refuse
PRAGMA page_size = 512
--! encoding | refuse
PRAGMA encoding = 'UTF-16'
--! wal-checkpoint | refuse
PRAGMA wal_checkpoint(TRUNCATE)
--! incremental-vacuum | refuse
PRAGMA incremental_vacuum(100)
--! auto-vacuum | refuse
PRAGMA auto_vacuum = 1
--! optimize | refuse
PRAGMA optimize(0xfffe)
--! shrink-memory | refuse
PRAGMA shrink_memory
--! threads | refuse
PRAGMA threads = 8
--! busy-timeout | refuse
PRAGMA busy_timeout = 100000000
--! locking-mode | refuse
PRAGMA locking_mode = EXCLUSIVE
--! foreign-keys | refuse
PRAGMA foreign_keys = ON
--! foreign-key-check | refuse
PRAGMA foreign_key_check
--! integrity-check | refuse
PRAGMA integrity_check
--! quick-check | refuse
PRAGMA quick_check(1000000)
--! database-list | refuse
PRAGMA database_list
--! compile-options | refuse
PRAGMA compile_options
--! table-info | refuse
PRAGMA table_info(item)
--! case-sensitive-like | refuse
PRAGMA case_sensitive_like = 1
--! recursive-triggers | refuse
PRAGMA recursive_triggers = 1
--! key | refuse
PRAGMA key = 'x'
--! unknown-pragma | refuse
PRAGMA no_such_pragma = 'x'
--! pragma-with-schema | refuse
PRAGMA temp.journal_mode = OFF
--! pragma-in-odd-case | refuse
pRaGmA/**/query_only=0
--! function-database-list | refuse
SELECT file FROM pragma_database_list
--! function-database-list-count | refuse
SELECT count(*) FROM pragma_database_list
--! function-table-info | refuse
SELECT * FROM pragma_table_info('item')
--! function-compile-options | refuse
SELECT count(*) FROM pragma_compile_options
--! function-function-list | refuse
SELECT name FROM pragma_function_list
--! function-module-list | refuse
SELECT 1 FROM pragma_module_list
--! function-integrity-check | refuse
SELECT * FROM pragma_integrity_check
--! function-user-version | refuse
SELECT * FROM pragma_user_version(7)
--! function-optimize | refuse
SELECT * FROM pragma_optimize
--! function-in-subquery | refuse
SELECT (SELECT count(*) FROM pragma_page_count()), name FROM item
--! function-in-join | refuse
SELECT 1 FROM item JOIN pragma_index_list('item')
