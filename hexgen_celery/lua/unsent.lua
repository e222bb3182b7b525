-- unsent: nobody can take the request now. It stays in the outbox; why is kept with its node, for
-- whoever asks how its question stands, or why it expired.
--
-- KEYS lib/workflow. P: node, attempt. ARGV 3 error (JSON). Returns 1, or 0 when it is not waiting.
local node = load_node(P.node)
if not node or not is_running() then return 0 end
if node.status ~= 'ready' or node.attempt ~= P.attempt then return 0 end
redis.call('HSET', NODES, P.node .. '/result', ARGV[3])
return 1
