-- queue_ack: messages whose work is done are gone, whoever holds them by now: a lease that ended too
-- early has put them back, and they must not run again.
--
-- KEYS lib/queue. ARGV 1 wake list of the worker or '', 2… tokens. Returns how many were known.
local known = 0
for index = 2, #ARGV do
  local token = ARGV[index]
  local value = redis.call('HGET', MESSAGES, token)
  if value then
    local entry = parse(value)
    if not release(token, entry) then dequeue(token, entry) end
    forget(token, entry)
    known = known + 1
  end
end
if ARGV[1] ~= '' then
  redis.call('LPUSH', ARGV[1], 0)
  redis.call('PEXPIRE', ARGV[1], WAKE_MS)
end
return known
