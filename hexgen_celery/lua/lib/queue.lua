-- Shared beginning of every queue script. All keys begin with KEYS[1], the deployment's queue root:
--
--   :messages        hash  token -> header, queue, payload (of all that waits or is leased)
--   :leases          zset  token, by the end of its lease (ms)
--   :holders         hash  token -> '-' or 'f' (first token seen), the process that holds it, a
--                          newline, its queue
--   :deliveries      hash  token of a list's message that was put back -> how often its lease ended
--   :passed          hash  token -> how often it was passed over as too large
--   :load            hash  <queue>:prefill_us, :decode_us -> integers, absent when zero
--   :claims          hash  <queue> -> claims made
--   :swept           string  time of the last sweep (ms)
--   :dead            hash  token -> header, queue, payload of a dead letter
--   :dead:since      zset  token, by the time it was given up (ms)
--   :dead:causes     hash  token -> why
--   :dead:dropped    string  how many of the oldest were dropped for want of room
--   :<queue>:waiting   zset  token, by latest start time
--   :watched         hash  <queue> -> latest start up to which all that waits is in :expiry
--   :<queue>:expiry    zset  token waiting there, by its last feasible moment, where it has one
--   :<queue>:demoted   zset  token past that moment, by the age of its question
--   :<queue>:sleepers  zset  wake list of a worker that found nothing, by the time it said so (ms)
--   :wake:<worker>     list  one element wakes that worker; the element says how many others sleep
--
-- A message of one of Kombu's lists is here only while it is leased. Header: kind, length of the
-- queue's name, how often its lease ended (NEVER before the first redelivery), latest start, last
-- feasible moment, age (Unix seconds), KV tokens, prefill tokens, prefill and decode microseconds.
local ROOT = KEYS[1]
local MESSAGES, LEASES, HOLDERS = ROOT .. ':messages', ROOT .. ':leases', ROOT .. ':holders'
local DELIVERIES, PASSED, LOAD = ROOT .. ':deliveries', ROOT .. ':passed', ROOT .. ':load'
local DEAD, DEAD_SINCE, DEAD_CAUSES = ROOT .. ':dead', ROOT .. ':dead:since', ROOT .. ':dead:causes'
local DEAD_DROPPED = ROOT .. ':dead:dropped'
local HEADER, HEADER_BYTES, NEVER = '>BHHdddI4I4I8I8', 53, 65535
local LIST, SORTED = 0, 1
local WATCHED = ROOT .. ':watched'
local SLEEP_MS, WAKE_MS = 3000, 5000

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number)
  return string.format('%d', number)
end

local function exact(number)
  return string.format('%.17g', number)
end

local function of(queue, part)
  return ROOT .. ':' .. queue .. ':' .. part
end

local function parse(value)
  local kind, length, deliveries, key, feasible_until, since, kv, prefill, prefill_us, decode_us =
    struct.unpack(HEADER, value)
  return {
    kind = kind, deliveries = deliveries, key = key, feasible_until = feasible_until,
    since = since, kv = kv, prefill = prefill, prefill_us = prefill_us, decode_us = decode_us,
    queue = string.sub(value, HEADER_BYTES + 1, HEADER_BYTES + length),
    payload_at = HEADER_BYTES + length + 1,
  }
end

local function format_header(entry)
  return struct.pack(HEADER, entry.kind, #entry.queue, entry.deliveries, entry.key,
    entry.feasible_until, entry.since, entry.kv, entry.prefill, entry.prefill_us, entry.decode_us)
end

local function count(queue, measure, amount)
  if amount == 0 then return end
  local field = queue .. ':' .. measure
  if redis.call('HINCRBY', LOAD, field, whole(amount)) == 0 then redis.call('HDEL', LOAD, field) end
end

local function count_work(entry, sign)
  count(entry.queue, 'prefill_us', sign * entry.prefill_us)
  count(entry.queue, 'decode_us', sign * entry.decode_us)
end

local function wake(queue, hops)
  local sleepers = of(queue, 'sleepers')
  local sleeper = redis.call('ZPOPMAX', sleepers)
  if not sleeper[1] then return end
  -- One that slept longer than any worker sleeps has died, and all before it have too.
  if milliseconds() - tonumber(sleeper[2]) > SLEEP_MS then
    redis.call('DEL', sleepers)
    return
  end
  redis.call('LPUSH', sleeper[1], hops or redis.call('ZCARD', sleepers))
  redis.call('PEXPIRE', sleeper[1], WAKE_MS)
end

-- Nothing expires before its latest start, as a rule. So a message is watched from then on only
-- (queue_claim sees to that), and most are claimed before and never need to be.
local function enqueue(token, entry)
  redis.call('ZADD', of(entry.queue, 'waiting'), exact(entry.key), token)
  if entry.feasible_until < math.huge then
    local watched = tonumber(redis.call('HGET', WATCHED, entry.queue) or -math.huge)
    if entry.key <= watched or entry.feasible_until < entry.key then
      redis.call('ZADD', of(entry.queue, 'expiry'), exact(entry.feasible_until), token)
    end
  end
end

local function take_out(token, entry)
  if redis.call('ZREM', of(entry.queue, 'waiting'), token) == 1 then
    if entry.feasible_until < math.huge then
      redis.call('ZREM', of(entry.queue, 'expiry'), token)
    end
    return true
  end
  return redis.call('ZREM', of(entry.queue, 'demoted'), token) == 1
end

local function dequeue(token, entry)
  redis.call('HDEL', PASSED, token)
  return take_out(token, entry)
end

-- A list's queue is the list's whole name, the priority included.
local function lease(token, entry, holder, until_ms)
  redis.call('ZADD', LEASES, whole(until_ms), token)
  redis.call('HSET', HOLDERS, token, '-' .. holder .. '\n' .. entry.queue)
end

-- Ends a lease; the prefill that was already counted out is counted in again, so that the work of a
-- message without a lease is always wholly counted. False when there was none.
local function release(token, entry)
  local held = redis.call('HGET', HOLDERS, token)
  if not held then return false end
  redis.call('HDEL', HOLDERS, token)
  redis.call('ZREM', LEASES, token)
  if string.byte(held) == 102 then count(entry.queue, 'prefill_us', entry.prefill_us) end
  return true
end

local function is_held_by(token, holder)
  local held = redis.call('HGET', HOLDERS, token)
  return held and string.sub(held, 2, #holder + 2) == holder .. '\n' and held
end

local function forget(token, entry)
  redis.call('HDEL', MESSAGES, token)
  if entry.kind == LIST and entry.deliveries ~= NEVER then redis.call('HDEL', DELIVERIES, token) end
  count_work(entry, -1)
end

-- Back to where it came from: a sorted set keeps its place, a list takes it at either end.
local function put_back(token, value, entry, at_front)
  if entry.kind == SORTED then
    redis.call('HSET', MESSAGES, token,
      format_header(entry) .. string.sub(value, HEADER_BYTES + 1))
    enqueue(token, entry)
    wake(entry.queue)
    return
  end
  redis.call('HDEL', MESSAGES, token)
  if entry.deliveries ~= NEVER then redis.call('HSET', DELIVERIES, token, entry.deliveries) end
  count_work(entry, -1)
  local push = at_front and 'RPUSH' or 'LPUSH'
  redis.call(push, entry.queue, string.sub(value, entry.payload_at))
end

local function bury(token, value, entry, cause, now_ms)
  forget(token, entry)
  redis.call('HSET', DEAD, token, value)
  redis.call('ZADD', DEAD_SINCE, whole(now_ms), token)
  redis.call('HSET', DEAD_CAUSES, token, cause)
end

local function unbury(token)
  redis.call('HDEL', DEAD, token)
  redis.call('ZREM', DEAD_SINCE, token)
  redis.call('HDEL', DEAD_CAUSES, token)
end
