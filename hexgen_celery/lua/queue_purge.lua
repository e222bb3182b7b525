-- queue_purge: removes what waits in a sorted set, a bounded number at a time.
--
-- KEYS lib/queue. ARGV 1 queue, 2 how many at most. Returns how many were removed.
local removed = 0
for _, part in ipairs({'waiting', 'demoted'}) do
  for _, token in ipairs(redis.call('ZRANGE', of(ARGV[1], part), 0, ARGV[2] - removed - 1)) do
    local value = redis.call('HGET', MESSAGES, token)
    if value then
      local entry = parse(value)
      dequeue(token, entry)
      forget(token, entry)
    end
    redis.call('ZREM', of(ARGV[1], part), token)
    removed = removed + 1
  end
  if removed >= tonumber(ARGV[2]) then break end
end
return removed
