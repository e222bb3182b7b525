-- snapshot: everything that one routing decision needs, in one string: it costs less to read than
-- a list does.
--
-- KEYS 1 instances (hash), 2 load (hash), 3 policies (hash), 4 placements (stream).
-- ARGV 1 id of the last placement known, 2 how many placements at most.
-- Returns, between bytes 30 (which neither JSON nor a name in the ledger holds): seconds,
-- microseconds, instance records by line, fields and values of the load by line, policies as a JSON
-- list of fields and values, id of the last placement, placements by line.
local time = redis.call('TIME')
local notes, last = {}, ARGV[1]
for index, entry in ipairs(redis.call('XRANGE', KEYS[4], '(' .. last, '+', 'COUNT', ARGV[2])) do
  notes[index], last = entry[2][2], entry[1]
end
return table.concat({
  time[1], time[2], table.concat(redis.call('HVALS', KEYS[1]), '\n'),
  table.concat(redis.call('HGETALL', KEYS[2]), '\n'), cjson.encode(redis.call('HGETALL', KEYS[3])),
  last, table.concat(notes, '\n'),
}, '\30')
