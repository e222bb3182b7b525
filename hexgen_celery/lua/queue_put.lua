-- queue_put: a message begins to wait in a sorted set. One that waits or is leased already, by its
-- token, is left alone, so that a request sent twice is queued once.
--
-- KEYS lib/queue. ARGV 1 token, 2 header .. queue .. payload. Returns 1, or 0 when it was known.
local token, value = ARGV[1], ARGV[2]
if redis.call('HSETNX', MESSAGES, token, value) == 0 then return 0 end
local entry = parse(value)
enqueue(token, entry)
count_work(entry, 1)
wake(entry.queue)
return 1
