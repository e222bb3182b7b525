-- queue_move: waiting messages of one sorted set wait in another from now on, with what they count.
--
-- KEYS lib/queue. ARGV 1 from, 2 to, 3 how many of the most urgent, or 0 for those of 4… tokens.
-- Returns how many were moved.
local from, to, tokens = ARGV[1], ARGV[2], {unpack(ARGV, 4)}
if ARGV[3] ~= '0' then
  tokens = redis.call('ZRANGE', of(from, 'waiting'), 0, ARGV[3] - 1)
  local left = ARGV[3] - #tokens
  if left > 0 then
    for _, token in ipairs(redis.call('ZRANGE', of(from, 'demoted'), 0, left - 1)) do
      tokens[#tokens + 1] = token
    end
  end
end
local moved = 0
for _, token in ipairs(tokens) do
  local value = redis.call('HGET', MESSAGES, token)
  local entry = value and parse(value)
  if entry and entry.queue == from and dequeue(token, entry) then
    count_work(entry, -1)
    entry.queue = to
    redis.call('HSET', MESSAGES, token,
      format_header(entry) .. to .. string.sub(value, entry.payload_at))
    count_work(entry, 1)
    enqueue(token, entry)
    wake(to)
    moved = moved + 1
  end
end
return moved
