-- retry: the current attempt at a node is over without a result; the next one goes to the outbox.
--
-- KEYS lib/workflow. P: node, attempt (the one that ended), facts (its cause, for the trace), lost
-- (present: only if its lease has ended, as the sweep believes).
-- ARGV 3 error (JSON).
-- Returns {spec, submission}, or nothing when that attempt is not the running or queued one.
local node = load_node(P.node)
if not node or node.attempt ~= P.attempt or not is_running() then return nil end
if is_final(node) or node.status == 'waiting' then return nil end
local lease = redis.call('ZSCORE', RUNNING, member(P.node, P.attempt))
if P.lost and lease and tonumber(lease) > now_ms then return nil end
withdraw(P.node, node)
P.facts.node = P.node
P.facts.attempt = P.attempt
P.facts.worker = node.worker
P.facts.instance = node.instance
trace('retried', P.facts)
node.attempt = node.attempt + 1
offer(P.node, node)
save_node(P.node, node)
redis.call('HSET', NODES, P.node .. '/result', ARGV[3])
return {redis.call('HGET', NODES, P.node .. '/spec'), redis.call('HGET', WORKFLOW, 'submission')}
