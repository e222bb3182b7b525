-- queue_redirect: a message that waits in a sorted set waits in another (or the same) one from now
-- on, with another rank and cost. One that is leased, or gone, is left alone.
--
-- KEYS lib/queue. ARGV 1 token, 2 to, 3 latest start, 4 last feasible moment, 5 KV tokens,
-- 6 prefill tokens, 7 prefill microseconds, 8 decode microseconds. Returns 1, or 0 if it did not wait.
local token, to = ARGV[1], ARGV[2]
local value = redis.call('HGET', MESSAGES, token)
if not value then return 0 end
local entry = parse(value)
local from = entry.queue
if not dequeue(token, entry) then return 0 end
count_work(entry, -1)
entry.queue, entry.key, entry.feasible_until = to, tonumber(ARGV[3]), tonumber(ARGV[4])
entry.kv, entry.prefill = tonumber(ARGV[5]), tonumber(ARGV[6])
entry.prefill_us, entry.decode_us = tonumber(ARGV[7]), tonumber(ARGV[8])
redis.call('HSET', MESSAGES, token, format_header(entry) .. to .. string.sub(value, entry.payload_at))
count_work(entry, 1)
enqueue(token, entry)
if to ~= from then wake(to) end
return 1
