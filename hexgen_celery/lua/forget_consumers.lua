-- forget_consumers: names in a consumer group that nobody uses any more. One script, because deleting
-- a name deletes what it holds, and it may come back between a look and a deletion.
--
-- KEYS 1 stream. ARGV 1 group, 2 the caller's name, 3 milliseconds of silence from which on a name
-- that holds nothing is deleted.
-- Returns how many were.
local forgotten = 0
for _, facts in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for at = 1, #facts, 2 do consumer[facts[at]] = facts[at + 1] end
  if consumer.pending == 0 and consumer.idle >= tonumber(ARGV[3]) and consumer.name ~= ARGV[2] then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
    forgotten = forgotten + 1
  end
end
return forgotten
