-- queue_requeue: a holder hands messages back unfinished. What it does not hold (any more) is left
-- alone: somebody else has it, or it waits already. It counts as redelivered, not as an attempt.
--
-- KEYS lib/queue. ARGV 1 holder, 2 '1' when lists take it at the front, 3… tokens.
-- Returns how many were handed back.
local returned = 0
for index = 3, #ARGV do
  local token = ARGV[index]
  local value = redis.call('HGET', MESSAGES, token)
  if value and is_held_by(token, ARGV[1]) then
    local entry = parse(value)
    release(token, entry)
    if entry.deliveries == NEVER then entry.deliveries = 0 end
    put_back(token, value, entry, ARGV[2] == '1')
    returned = returned + 1
  end
end
return returned
