-- queue_redrive: dead letters go back to their queues as if they had never been delivered, or away.
--
-- KEYS lib/queue. ARGV 1 '1' to put them back, '0' to drop them, 2… tokens. Returns how many.
local done = 0
for index = 2, #ARGV do
  local token = ARGV[index]
  local value = redis.call('HGET', DEAD, token)
  if value then
    unbury(token)
    local entry = parse(value)
    entry.deliveries = NEVER
    if ARGV[1] == '1' and redis.call('HEXISTS', MESSAGES, token) == 0 then
      redis.call('HSET', MESSAGES, token, value)
      count_work(entry, 1)
      put_back(token, value, entry, true)
    end
    done = done + 1
  end
end
return done
