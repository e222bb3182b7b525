-- finish: cancel, expire, or answer at the deadline with what there is.
--
-- KEYS lib/workflow. P: status, rows_from, version (absent: whatever the version is). ARGV 3 outcome.
-- A workflow that is not known yet keeps the mark, so that it never starts (P.status cancelled only).
-- Returns 'finished' | 'stale' (it was terminal already) | 'conflict' | 'unknown'.
local status = redis.call('HGET', WORKFLOW, 'status')
if not status then
  if P.status == 'cancelled' then
    redis.call('HSET', WORKFLOW, 'status', P.status, 'outcome', ARGV[3], 'finished_at', stamp)
    expire_all(now_ms + P.result_ttl_ms)
  end
  return 'unknown'
end
if status ~= 'running' then return 'stale' end
if P.version and tonumber(redis.call('HGET', WORKFLOW, 'version')) ~= P.version then
  return 'conflict'
end
redis.call('HINCRBY', WORKFLOW, 'version', 1)
finish(P.status, ARGV[3])
return 'finished'
