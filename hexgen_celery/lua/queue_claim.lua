-- queue_claim: the rule of core/order/claim.py over some sorted sets together, and the lease of what
-- it takes. A worker that gets nothing is noted as asleep in every queue it asked for.
--
-- KEYS lib/queue. ARGV 1 holder, 2 lease in ms (0: none, the message is gone), 3 wake list or '',
-- 4 sleepers the wake may be passed on to, 5 KV tokens, 6 prefill tokens, 7 sequences allowed,
-- 8 every, 9 patience, 10 depth, 11… queues; the first one's claims are counted.
-- A negative number of sleepers says that the worker was not asleep.
-- Returns {token, value}, or 0 when nothing waits, or 1 when nothing fits.
local holder, lease_ms, wake_list, hops = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local kv_room, prefill_room, sequences = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local every, patience, depth = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local queues = {unpack(ARGV, 11)}
local CLAIMS = ROOT .. ':claims'
-- So many are watched and demoted in one claim at most: a mass expiry must not stop Redis.
local DEMOTIONS = 500

local time = redis.call('TIME')
local now, now_ms = time[1] + time[2] / 1000000, time[1] * 1000 + math.floor(time[2] / 1000)

-- Watches what has passed its latest start since the last claim.
local function watch(queue)
  local since = redis.call('HGET', WATCHED, queue) or '-inf'
  local due = redis.call('ZRANGEBYSCORE', of(queue, 'waiting'), since, exact(now), 'WITHSCORES',
    'LIMIT', 0, DEMOTIONS)
  if #due == 0 then return end
  for index = 1, #due, 2 do
    local value = redis.call('HGET', MESSAGES, due[index])
    local moment = value and parse(value).feasible_until or math.huge
    if moment < math.huge then redis.call('ZADD', of(queue, 'expiry'), exact(moment), due[index]) end
  end
  local all = #due < 2 * DEMOTIONS
  redis.call('HSET', WATCHED, queue, all and exact(now) or due[#due])
end

local function demote(queue)
  local expired = redis.call('ZRANGEBYSCORE', of(queue, 'expiry'), '-inf', '(' .. exact(now),
    'LIMIT', 0, DEMOTIONS)
  for _, token in ipairs(expired) do
    redis.call('ZREM', of(queue, 'expiry'), token)
    redis.call('ZREM', of(queue, 'waiting'), token)
    local value = redis.call('HGET', MESSAGES, token)
    if value then
      redis.call('ZADD', of(queue, 'demoted'), exact(parse(value).since), token)
    end
  end
end

local function before(one, other)
  if one.score ~= other.score then return one.score < other.score end
  return one.token < other.token
end

-- The first of a line over all queues.
local function line(part, most)
  local found = {}
  for _, queue in ipairs(queues) do
    local entries = redis.call('ZRANGE', of(queue, part), 0, most - 1, 'WITHSCORES')
    for index = 1, #entries, 2 do
      found[#found + 1] =
        {token = entries[index], score = tonumber(entries[index + 1]), key = of(queue, part)}
    end
  end
  if #queues > 1 then table.sort(found, before) end
  return found
end

-- A token whose message is gone (memory policy of the server) must not block its queue.
local function load(candidate)
  candidate.value = redis.call('HGET', MESSAGES, candidate.token)
  if not candidate.value then
    redis.call('ZREM', candidate.key, candidate.token)
    return nil
  end
  return parse(candidate.value)
end

local function fits(entry)
  return entry and entry.kv <= kv_room and entry.prefill <= prefill_room
end

local function take(candidate, entry)
  local token = candidate.token
  dequeue(token, entry)
  if hops >= 0 then
    for _, queue in ipairs(queues) do redis.call('ZREM', of(queue, 'sleepers'), wake_list) end
  end
  if lease_ms > 0 then
    lease(token, entry, holder, now_ms + lease_ms)
  else
    forget(token, entry)
  end
  return {token, candidate.value}
end

local function sleep(waits)
  redis.call('HINCRBY', CLAIMS, queues[1], -1)
  if wake_list == '' then return waits end
  for _, queue in ipairs(queues) do
    if waits == 1 and hops > 0 then wake(queue, hops - 1) end
    redis.call('ZADD', of(queue, 'sleepers'), whole(now_ms), wake_list)
  end
  return waits
end

for _, queue in ipairs(queues) do
  watch(queue)
  demote(queue)
end
-- Counted in advance, and out again when nothing is taken: most claims take something.
local claims = redis.call('HINCRBY', CLAIMS, queues[1], 1) - 1
local first, second = 'waiting', 'demoted'
if claims % every == every - 1 then first, second = second, first end

local head, entry
repeat
  head = line(first, 1)[1] or line(second, 1)[1]
  if not head then return sleep(0) end
  entry = load(head)
until entry
if sequences <= 0 then return sleep(1) end
if fits(entry) then return take(head, entry) end
if tonumber(redis.call('HGET', PASSED, head.token) or 0) >= patience then return sleep(1) end

local following = line(first, depth + 1)
for _, candidate in ipairs(line(second, depth + 1)) do following[#following + 1] = candidate end
for index = 2, math.min(depth + 1, #following) do
  local candidate = following[index]
  local behind = load(candidate)
  if fits(behind) then
    redis.call('HINCRBY', PASSED, head.token, 1)
    return take(candidate, behind)
  end
end
return sleep(1)
