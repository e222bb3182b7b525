-- postpone: outbox entries that need not be sent for a while; those gone meanwhile stay gone.
--
-- KEYS 1 outbox. ARGV 1 ms from now, 2… members. Returns nothing.
local time = redis.call('TIME')
local due_ms = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
for index = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 'XX', string.format('%d', due_ms), ARGV[index])
end
