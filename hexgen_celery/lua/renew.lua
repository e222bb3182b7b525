-- renew: extends the leases of requests that still run. Whatever ended a request's right to run
-- (done, dropped, cancelled, superseded, swept) has taken it out of the set.
--
-- KEYS 1 running (zset, see lib/workflow). ARGV 1 lease in ms, 2… <workflow>/<node>/<attempt>.
-- Returns the positions (from 0) of those that must stop.
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
local stop = {}
for index = 2, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[index]) then
    redis.call('ZADD', KEYS[1], string.format('%d', until_ms), ARGV[index])
  else
    table.insert(stop, index - 2)
  end
end
return stop
