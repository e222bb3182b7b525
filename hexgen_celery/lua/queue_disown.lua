-- queue_disown: a process has died, as whoever started it saw: its leases end now, and the next sweep
-- puts their messages back.
--
-- KEYS lib/queue. ARGV 1 how the names of its holders begin (host:pid:).
-- Returns the messages it held, as stored.
local found = {}
local holders = redis.call('HGETALL', HOLDERS)
for index = 1, #holders, 2 do
  local token, held = holders[index], holders[index + 1]
  if string.sub(held, 2, #ARGV[1] + 1) == ARGV[1] then
    redis.call('ZADD', LEASES, 'XX', 0, token)
    local value = redis.call('HGET', MESSAGES, token)
    if value then found[#found + 1] = value end
  end
end
return found
