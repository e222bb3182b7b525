-- queue_remove: messages that need not run, by token, as far as nobody holds them.
--
-- KEYS lib/queue. ARGV tokens. Returns how many were removed.
local removed = 0
for _, token in ipairs(ARGV) do
  local value = redis.call('HGET', MESSAGES, token)
  local entry = value and parse(value)
  if entry and dequeue(token, entry) then
    forget(token, entry)
    removed = removed + 1
  end
end
return removed
