-- claim: a worker takes one request, for good or until its lease ends. A claim that overtakes the
-- sender's confirmation confirms as well; one repeated with the same token gets the same answer.
--
-- KEYS lib/workflow. P: node, attempt, worker, instance, queue, token, lease_ms.
-- Returns {spec, submission, seconds it waited}, or nothing when the message is stale, doubled,
-- cancelled or expired.
local node = load_node(P.node)
if not node or node.attempt ~= P.attempt or not is_running() or is_expired() then return nil end

local again = node.status == 'running' and node.token == P.token
if not again then
  if node.status ~= 'ready' and node.status ~= 'queued' then return nil end
  redis.call('ZREM', OUTBOX, member(P.node, P.attempt))
  release(node)
  node.status = 'running'
  node.token = P.token
  node.worker = P.worker
  node.instance = P.instance
  node.queue = P.queue ~= '' and P.queue or node.queue or ''
  node.queued_at = node.queued_at or stamp
  node.claimed_at = stamp
  hold(node, 'running')
  save_node(P.node, node)
  trace('claimed', {node = P.node, attempt = P.attempt, worker = P.worker,
    instance = P.instance, queue = node.queue})
end
redis.call('ZADD', RUNNING, now_ms + P.lease_ms, member(P.node, P.attempt))
local waited = node.ready_at and node.claimed_at - node.ready_at or 0
return {redis.call('HGET', NODES, P.node .. '/spec'), redis.call('HGET', WORKFLOW, 'submission'),
  string.format('%.4f', waited)}
