-- Shared beginning of every script that moves one workflow.
--
-- KEYS 1 workflow   hash    submission, status, version, memory, outcome, deadline_ms, expires_ms,
--                           submitted_at, started_at, finished_at, nodes (how many were ever added)
--      2 nodes      hash    <node> record, <node>/spec, <node>/result (JSON)
--      3 bulk       hash    <node> rows (JSON)
--      4 trace      list    events of this workflow (JSON)
--      5 outbox     zset    <workflow>/<node>/<attempt> or <workflow>, by the time it is sent (again)
--      6 deadlines  zset    running workflow, by deadline
--      7 running    zset    <workflow>/<node>/<attempt>, by the end of its lease
--      8 load       hash    <queue>:<measure>, instance/<name>:<measure> -> integers
--      9 events     stream  events of the deployment (field e, JSON), capped
--     10…           string  prompt parts that added nodes refer to
-- ARGV 1 workflow id, 2 parameters (JSON); the rest is named by each script.
--
-- Scheduled times are integer milliseconds; observed times are seconds with four decimals (cjson
-- and tostring keep 14 digits). A node record is written by these scripts alone.
local WORKFLOW, NODES, BULK, TRACE, OUTBOX, DEADLINES, RUNNING, LOAD, EVENTS = unpack(KEYS, 1, 9)
local FIRST_PART = 10
local ID = ARGV[1]
local P = cjson.decode(ARGV[2])

local TIME = redis.call('TIME')
local now_ms = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local stamp = tonumber(TIME[1]) + math.floor(TIME[2] / 100) / 10000

local PREFILL = {'prefill_tokens', 'prefill_us'}
local DECODE = {'output_tokens', 'decode_us', 'context_tokens'}

local function member(node_id, attempt)
  return ID .. '/' .. node_id .. '/' .. string.format('%d', attempt)
end

local function load_node(node_id)
  local record = redis.call('HGET', NODES, node_id)
  return record and cjson.decode(record)
end

local function save_node(node_id, node)
  redis.call('HSET', NODES, node_id, cjson.encode(node))
end

local function trace(event, facts)
  facts.t = stamp
  facts.event = event
  redis.call('RPUSH', TRACE, cjson.encode(facts))
  facts.workflow = ID
  redis.call('XADD', EVENTS, 'MAXLEN', '~', P.stream, '*', 'e', cjson.encode(facts))
end

-- A beginning or an end, for the store. The recorder deletes what it has stored, so that the length
-- is what waits; what does not fit any more is counted, with the time of the last.
local function record(kind)
  if not P.records then return end
  local status = redis.call('HGET', WORKFLOW, 'status')
  redis.call('XADD', P.records, '*', 'w', ID, 'k', kind, 's', status, 't', stamp)
  local dropped = redis.call('XTRIM', P.records, 'MAXLEN', P.records_kept)
  if dropped > 0 then
    redis.call('INCRBY', P.records .. ':dropped', dropped)
    redis.call('SET', P.records .. ':dropped_at', stamp)
  end
end

local function is_running()
  return redis.call('HGET', WORKFLOW, 'status') == 'running'
end

local function is_expired()
  local deadline = redis.call('ZSCORE', DEADLINES, ID)
  return not deadline or tonumber(deadline) <= now_ms
end

-- The ledger: what a node holds of its queue (and instance) is written in its record, so that
-- giving it back subtracts exactly what was added.
local function count(field, amount)
  if amount ~= 0 and redis.call('HINCRBY', LOAD, field, string.format('%d', amount)) == 0 then
    redis.call('HDEL', LOAD, field)
  end
end

local function runs_on(node)
  return node.held == 'running' and node.instance and node.instance ~= '' and node.instance
end

local function scopes(node)
  local instance = runs_on(node)
  return instance and {node.queue, 'instance/' .. instance} or {node.queue}
end

-- The work is that of the queue while it waits, and of the instance once it runs there.
local function account(node, measures, sign)
  local instance = runs_on(node)
  local scope = instance and 'instance/' .. instance or node.queue
  for _, measure in ipairs(measures) do
    count(scope .. ':' .. measure, sign * (node[measure] or 0))
  end
end

local function hold(node, state)
  node.held = state
  for _, scope in ipairs(scopes(node)) do count(scope .. ':' .. state, 1) end
  account(node, PREFILL, 1)
  account(node, DECODE, 1)
end

local function release_prefill(node)
  if node.held and not node.prefilled then account(node, PREFILL, -1) end
  node.prefilled = true
end

local function release(node)
  if not node.held then return end
  release_prefill(node)
  account(node, DECODE, -1)
  for _, scope in ipairs(scopes(node)) do count(scope .. ':' .. node.held, -1) end
  node.held = nil
  node.prefilled = nil
end

-- Where a node waits or runs: taken away from outbox, leases and ledger together.
local function withdraw(node_id, node)
  local name = member(node_id, node.attempt)
  redis.call('ZREM', OUTBOX, name)
  redis.call('ZREM', RUNNING, name)
  release(node)
end

local function offer(node_id, node)
  node.status = 'ready'
  node.ready_at = stamp
  node.sends = 0
  for _, field in ipairs({'queue', 'queued_at', 'claimed_at', 'first_token_at', 'worker', 'instance', 'budget',
    'expected_end'}) do
    node[field] = nil
  end
  redis.call('ZADD', OUTBOX, now_ms + P.resend_ms, member(node_id, node.attempt))
  trace('ready', {node = node_id, attempt = node.attempt, stage = node.stage, step = node.step})
end

local function drop(node_id, node)
  withdraw(node_id, node)
  node.status = 'dropped'
  node.finished_at = stamp
  save_node(node_id, node)
  trace('dropped', {node = node_id, attempt = node.attempt})
end

local function is_final(node)
  return node.status == 'done' or node.status == 'failed' or node.status == 'dropped'
end

-- Parts live at least as long as every workflow that was given a node with them.
local function missing_parts()
  local missing = {}
  for index = FIRST_PART, #KEYS do
    if redis.call('EXISTS', KEYS[index]) == 0 then table.insert(missing, index - FIRST_PART) end
  end
  return missing
end

local function keep_parts(expires_ms)
  for index = FIRST_PART, #KEYS do
    local left = redis.call('PTTL', KEYS[index])
    if left >= 0 and now_ms + left < expires_ms then
      redis.call('PEXPIREAT', KEYS[index], string.format('%d', expires_ms))
    end
  end
end

local function expire_all(at_ms)
  for _, key in ipairs({WORKFLOW, NODES, BULK, TRACE}) do
    redis.call('PEXPIREAT', key, string.format('%d', at_ms))
  end
end

local function end_nodes()
  local stopped = false
  for _, field in ipairs(redis.call('HKEYS', NODES)) do
    if not string.find(field, '/', 1, true) then
      local node = load_node(field)
      if not is_final(node) then
        stopped = stopped or node.status == 'running'
        drop(field, node)
      end
    end
  end
  if stopped then redis.call('PUBLISH', P.cancels, ID) end
end

local function keep_rows_of(node_id)
  for _, field in ipairs(redis.call('HKEYS', BULK)) do
    if field ~= node_id then redis.call('HDEL', BULK, field) end
  end
end

-- Questions are counted by tenant and SLO class in the hash P.tenants, fields JSON [tenant, class,
-- measure]; a tenant's running ones are in the sorted set beside it, by when they are forgotten.
-- Tenants may be anything a client sends: once a hash has MOST_COUNTED fields, those that are not in
-- it yet are counted together in it, as the tenant OTHERS. Whoever is in it keeps all measures.
local MOST_COUNTED = 20000
local OTHERS = 'other'
local MEASURES = {'accepted', 'refused', 'answered', 'failed', 'expired', 'cancelled', 'met'}

-- The recent past is counted besides in hashes of five minutes and of an hour, P.tenants@<seconds>:
-- <number>, which end by themselves: {seconds, how long it is kept}.
local RECENT = {{300, 7200}, {3600, 93600}}

local function is_counted_in(hash, tenant, class)
  if redis.call('HLEN', hash) < MOST_COUNTED then return true end
  for _, measure in ipairs(MEASURES) do
    if redis.call('HEXISTS', hash, cjson.encode({tenant, class, measure})) == 1 then return true end
  end
  return false
end

local function count_in(hash, tenant, class, measure)
  local name = is_counted_in(hash, tenant, class) and tenant or OTHERS
  redis.call('HINCRBY', hash, cjson.encode({name, class, measure}), 1)
end

local function count_question(tenant, class, measure)
  count_in(P.tenants, tenant, class, measure)
  for _, period in ipairs(RECENT) do
    local number = math.floor(now_ms / 1000 / period[1])
    local hash = string.format('%s@%d:%d', P.tenants, period[1], number)
    count_in(hash, tenant, class, measure)
    redis.call('EXPIRE', hash, period[2])
  end
end

local function running_of(tenant)
  return P.tenants .. ':' .. tenant
end

-- To be called before the deadline is forgotten.
local function leave_tenant(status)
  local tenant, class = unpack(redis.call('HMGET', WORKFLOW, 'tenant', 'slo_class'))
  if not tenant then return end
  redis.call('ZREM', running_of(tenant), ID)
  count_question(tenant, class, status)
  if status == 'answered' and not is_expired() then count_question(tenant, class, 'met') end
end

-- The one way into a terminal state. P.rows_from names the node whose rows are the answer's.
local function finish(status, outcome)
  end_nodes()
  keep_rows_of(P.rows_from)
  redis.call('HSET', WORKFLOW, 'status', status, 'outcome', outcome, 'finished_at', stamp)
  leave_tenant(status)
  redis.call('ZREM', DEADLINES, ID)
  redis.call('ZADD', OUTBOX, now_ms + P.resend_ms, ID)
  trace('finished', {status = status})
  record('end')
  expire_all(now_ms + P.result_ttl_ms)
end

-- Applies an expansion that was planned on this very version.
-- P.add = {{id, ready, stage, step, prefill_tokens, output_tokens, context_tokens}…}, P.release and P.drop = node
-- ids, P.status = terminal status if there is an outcome. ARGV[first_spec…] = specs of P.add.
local function apply_expansion(memory, outcome, first_spec)
  redis.call('HINCRBY', WORKFLOW, 'version', 1)
  if memory ~= '' then redis.call('HSET', WORKFLOW, 'memory', memory) end
  local known = tonumber(redis.call('HGET', WORKFLOW, 'nodes') or 0)
  for position, added in ipairs(P.add) do
    local node = {
      status = 'waiting', attempt = 1, order = known + position, stage = added.stage,
      step = added.step, prefill_tokens = added.prefill_tokens,
      output_tokens = added.output_tokens, context_tokens = added.context_tokens,
    }
    redis.call('HSET', NODES, added.id .. '/spec', ARGV[first_spec + position - 1])
    if added.ready then offer(added.id, node) end
    save_node(added.id, node)
  end
  redis.call('HINCRBY', WORKFLOW, 'nodes', #P.add)
  for _, node_id in ipairs(P.release) do
    local node = load_node(node_id)
    offer(node_id, node)
    save_node(node_id, node)
  end
  for _, node_id in ipairs(P.drop) do
    local node = load_node(node_id)
    if not is_final(node) then
      if node.status == 'running' then redis.call('PUBLISH', P.cancels, ID .. '/' .. node_id) end
      drop(node_id, node)
    end
  end
  if P.status then finish(P.status, outcome) end
end
