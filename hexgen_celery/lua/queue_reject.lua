-- queue_reject: a holder refuses messages for good; they become dead letters.
--
-- KEYS lib/queue. ARGV 1 holder, 2 cause, 3… tokens. Returns how many were buried.
local buried = 0
for index = 3, #ARGV do
  local token = ARGV[index]
  local value = redis.call('HGET', MESSAGES, token)
  if value and is_held_by(token, ARGV[1]) then
    local entry = parse(value)
    release(token, entry)
    bury(token, value, entry, ARGV[2], milliseconds())
    buried = buried + 1
  end
end
return buried
