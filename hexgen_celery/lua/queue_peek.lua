-- queue_peek: the most urgent messages of a sorted set, feasible ones first; changes nothing.
--
-- KEYS lib/queue. ARGV 1 queue, 2 how many, 3 how many more urgent ones to leave out. Returns {token, value, demoted (0 or 1), …}.
local found = {}
local left, skip = tonumber(ARGV[2]), tonumber(ARGV[3])
for demoted, part in ipairs({'waiting', 'demoted'}) do
  if left > 0 then
    local set = of(ARGV[1], part)
    for _, token in ipairs(redis.call('ZRANGE', set, skip, skip + left - 1)) do
      local value = redis.call('HGET', MESSAGES, token)
      if value then
        found[#found + 1] = token
        found[#found + 1] = value
        found[#found + 1] = demoted - 1
        left = left - 1
      end
    end
    skip = math.max(0, skip - redis.call('ZCARD', set))
  end
end
return found
