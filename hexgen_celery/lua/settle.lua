-- settle: a node is done, or failed for good, and what its workflow does next happens with it.
--
-- KEYS lib/workflow. P: node, attempt, state ('done' | 'failed'), version (that was planned on),
-- facts (for the trace), and apply_expansion's. ARGV 3 result, 4 rows or '', 5 memory, 6 outcome,
-- 7… specs of P.add.
-- The first completion wins, whichever attempt it comes from; only the current attempt can fail.
-- Returns {'ok'} | {'stale'} | {'conflict'} (plan again) | {'parts', index…} (store them first).
local node = load_node(P.node)
if not node or not is_running() then return {'stale'} end
if is_final(node) or node.status == 'waiting' then return {'stale'} end
if P.attempt > node.attempt or (P.state == 'failed' and P.attempt ~= node.attempt) then
  return {'stale'}
end
if tonumber(redis.call('HGET', WORKFLOW, 'version')) ~= P.version then return {'conflict'} end
local missing = missing_parts()
if #missing > 0 then return {'parts', unpack(missing)} end
local expires_ms = tonumber(redis.call('HGET', WORKFLOW, 'expires_ms'))
keep_parts(expires_ms)

if P.attempt < node.attempt and node.status == 'running' then
  redis.call('PUBLISH', P.cancels, ID .. '/' .. P.node)
end
withdraw(P.node, node)
node.status = P.state
node.finished_at = stamp
node.won = P.attempt
save_node(P.node, node)
redis.call('HSET', NODES, P.node .. '/result', ARGV[3])
if ARGV[4] ~= '' then
  redis.call('HSET', BULK, P.node, ARGV[4])
  redis.call('PEXPIREAT', BULK, string.format('%d', expires_ms))
end
local facts = P.facts
facts.node = P.node
facts.attempt = P.attempt
facts.stage = node.stage
facts.step = node.step
facts.queue = node.queue
facts.instance = node.instance
facts.worker = node.worker
-- The overrun of its budget (seconds, negative when some was left) is its question's debit.
if node.budget then
  facts.budget = node.budget
  facts.debit = math.floor((stamp - node.ready_at - node.budget) * 10000 + 0.5) / 10000
end
trace(P.state, facts)
apply_expansion(ARGV[5], ARGV[6], 7)
return {'ok'}
