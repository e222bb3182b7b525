-- queue_renew: extends all leases of one process. One that ended, but whose message still waits in
-- its sorted set, is taken again: the work goes on here, and a second worker would only repeat it.
--
-- KEYS lib/queue. ARGV 1 holder, 2 lease in ms, 3… tokens.
-- Returns the positions (from 0) of those that are gone or somebody else's.
local holder, until_ms, lost = ARGV[1], milliseconds() + tonumber(ARGV[2]), {}
for index = 3, #ARGV do
  local token = ARGV[index]
  if is_held_by(token, holder) then
    redis.call('ZADD', LEASES, whole(until_ms), token)
  else
    local value = redis.call('HGET', MESSAGES, token)
    local entry = value and parse(value)
    if entry and dequeue(token, entry) then
      lease(token, entry, holder, until_ms)
    else
      lost[#lost + 1] = index - 3
    end
  end
end
return lost
