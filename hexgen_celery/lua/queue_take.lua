-- queue_take: the next message of one of Kombu's queues, which is a list per priority, and its
-- lease, in one step.
--
-- KEYS lib/queue. ARGV 1 holder, 2 lease in ms, 3 token for a message without a delivery tag,
-- 4… lists, most urgent priority first.
-- Returns {token, value}, or 0 when nothing waits.
local MARK = '"delivery_tag": "'
for index = 4, #ARGV do
  local list = ARGV[index]
  local payload = redis.call('RPOP', list)
  if payload then
    local token = ARGV[3]
    local _, mark_end = string.find(payload, MARK, 1, true)
    local tag_end = mark_end and string.find(payload, '"', mark_end + 1, true)
    if tag_end then token = string.sub(payload, mark_end + 1, tag_end - 1) end
    -- The same publication twice in the lists, as other transports' recovery may leave it.
    if redis.call('HEXISTS', MESSAGES, token) == 1 then token = ARGV[3] end
    local deliveries = tonumber(redis.call('HGET', DELIVERIES, token) or NEVER)
    local entry = {kind = LIST, queue = list, deliveries = deliveries, key = 0,
      feasible_until = math.huge, since = 0, kv = 0, prefill = 0, prefill_us = 0, decode_us = 0}
    local value = format_header(entry) .. list .. payload
    redis.call('HSET', MESSAGES, token, value)
    lease(token, entry, ARGV[1], milliseconds() + tonumber(ARGV[2]))
    return {token, value}
  end
end
return 0
