-- first_token: the request's prompt is computed, so its prefill leaves the ledger.
--
-- KEYS lib/workflow. P: node, attempt. Returns 1, or 0 when that attempt does not run (any more).
local node = load_node(P.node)
if not node or node.attempt ~= P.attempt or node.status ~= 'running' then return 0 end
if not node.first_token_at then
  node.first_token_at = stamp
  release_prefill(node)
  save_node(P.node, node)
  trace('first_token', {node = P.node, attempt = P.attempt, instance = node.instance})
end
return 1
