-- due: what a control worker must look at now. Outbox entries it is told about are not due again
-- for ARGV 1; deadlines and leases stay, because ending them is what removes them.
--
-- After nobody swept for a lease's length (Redis or every control worker was away) workers could
-- not renew either, so that all leases are extended once before any is taken for dead. The mark of
-- the last sweep goes with an idle deployment; without it nobody knows, which counts as a gap too.
--
-- KEYS 1 outbox, 2 deadlines, 3 running (zsets, see lib/workflow), 4 swept (string: time of the last
-- sweep, ms). ARGV 1 ms until an entry is due again, 2 lease in ms, 3 how many of each at most.
-- Returns {outbox entries, workflows past their deadline, requests whose lease ended}.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local again_ms, lease_ms, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local function due(key)
  return redis.call('ZRANGEBYSCORE', key, '-inf', string.format('%d', now_ms), 'LIMIT', 0, most)
end

local swept = tonumber(redis.call('GET', KEYS[4]) or 0)
redis.call('SET', KEYS[4], string.format('%d', now_ms), 'PX', 100 * lease_ms)
if now_ms - swept > lease_ms then
  for _, name in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    redis.call('ZADD', KEYS[3], string.format('%d', now_ms + lease_ms), name)
  end
end

local entries = due(KEYS[1])
for _, name in ipairs(entries) do
  redis.call('ZADD', KEYS[1], string.format('%d', now_ms + again_ms), name)
end
return {entries, due(KEYS[2]), due(KEYS[3])}
