-- queue_sweep: puts back what nobody renewed, on Redis' own clock.
--
-- When nobody swept for longer than ARGV 3, Redis was away or paused and nobody could renew either:
-- all leases are extended once before any is taken for dead. A message whose lease ended ARGV 4
-- times is a dead letter. Of the dead letters the newest ARGV 6 are kept.
--
-- KEYS lib/queue. ARGV 1 lease in ms, 2 a sweep is due so many ms after the last, 3 gap in ms,
-- 4 deliveries, 5 how many leases to end, and dead letters to drop, at most, 6 dead letters kept.
-- Returns {put back, buried, extended, dropped}.
local SWEPT = ROOT .. ':swept'
local now_ms, lease_ms = milliseconds(), tonumber(ARGV[1])
local swept = tonumber(redis.call('GET', SWEPT) or now_ms - tonumber(ARGV[2]))
if now_ms >= swept and now_ms - swept < tonumber(ARGV[2]) then return {0, 0, 0, 0} end
redis.call('SET', SWEPT, whole(now_ms))
if now_ms - swept > tonumber(ARGV[3]) then
  local all = redis.call('ZRANGE', LEASES, 0, -1)
  for _, token in ipairs(all) do redis.call('ZADD', LEASES, whole(now_ms + lease_ms), token) end
  return {0, 0, #all, 0}
end

local back, buried = 0, 0
local ended = redis.call('ZRANGEBYSCORE', LEASES, '-inf', whole(now_ms), 'LIMIT', 0, ARGV[5])
for _, token in ipairs(ended) do
  local value = redis.call('HGET', MESSAGES, token)
  local held = string.match(redis.call('HGET', HOLDERS, token) or '', '^.([^\n]*)') or '?'
  if not value then
    redis.call('ZREM', LEASES, token)
    redis.call('HDEL', HOLDERS, token)
  else
    local entry = parse(value)
    release(token, entry)
    entry.deliveries = entry.deliveries == NEVER and 1 or entry.deliveries + 1
    if entry.deliveries >= tonumber(ARGV[4]) then
      local cause = 'its lease ended ' .. entry.deliveries .. ' times, last held by ' .. held
      bury(token, value, entry, cause, now_ms)
      buried = buried + 1
    else
      put_back(token, value, entry, true)
      back = back + 1
    end
  end
end

local excess = math.min(redis.call('ZCARD', DEAD_SINCE) - tonumber(ARGV[6]), tonumber(ARGV[5]))
if excess <= 0 then return {back, buried, 0, 0} end
for _, token in ipairs(redis.call('ZRANGE', DEAD_SINCE, 0, excess - 1)) do unbury(token) end
redis.call('INCRBY', DEAD_DROPPED, excess)
return {back, buried, 0, excess}
