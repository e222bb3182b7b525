-- queue_first_token: a request's prompt is computed, so its prefill is no longer outstanding.
--
-- KEYS lib/queue. ARGV 1 holder, 2 token, 3 wake list of the worker or ''.
-- Returns 1, or 0 when that process does not hold it or has said so before.
local token = ARGV[2]
local held = is_held_by(token, ARGV[1])
if not held or string.byte(held) == 102 then return 0 end
local entry = parse(redis.call('HGET', MESSAGES, token))
redis.call('HSET', HOLDERS, token, 'f' .. string.sub(held, 2))
count(entry.queue, 'prefill_us', -entry.prefill_us)
if ARGV[3] ~= '' then
  redis.call('LPUSH', ARGV[3], 0)
  redis.call('PEXPIRE', ARGV[3], WAKE_MS)
end
return 1
