-- confirm: the broker has these messages. A queued request stays in the outbox until it is claimed,
-- but is sent again only after P.requeue_ms, doubled each time, in case the queue lost it. Where the
-- claim came first, only what the router decided is kept.
--
-- KEYS lib/workflow. P.sent = {{node, attempt, queue, prefill_tokens?, output_tokens?, prefill_us?,
-- decode_us?, budget?, expected_end?, reasons?, note?, moved?}…}; notes go to the stream
-- P.placements, by which routers follow what instances have in their caches. One that `moved` waits
-- in another queue now, with other estimates; it was not sent again.
-- Returns how many were waiting for it.
local function adopt_estimates(node, sent)
  for _, measures in ipairs({PREFILL, DECODE}) do
    for _, measure in ipairs(measures) do node[measure] = sent[measure] or node[measure] end
  end
  node.budget = sent.budget or node.budget
  node.expected_end = sent.expected_end or node.expected_end
end

local function tell(sent)
  local facts = sent.reasons or {}
  facts.node = sent.node
  facts.attempt = sent.attempt
  facts.queue = sent.queue
  trace('sent', facts)
  if sent.note then
    redis.call('XADD', P.placements, 'MAXLEN', '~', P.placements_kept, '*', 'n', sent.note)
  end
end

local function queue(node, sent)
  release(node)
  node.status = 'queued'
  node.queue = sent.queue
  node.queued_at = stamp
  if not sent.moved then node.sends = node.sends + 1 end
  adopt_estimates(node, sent)
  hold(node, 'waiting')
  save_node(sent.node, node)
  local again_ms = now_ms + P.requeue_ms * 2 ^ (math.max(node.sends, 1) - 1)
  redis.call('ZADD', OUTBOX, string.format('%d', again_ms), member(sent.node, sent.attempt))
  tell(sent)
end

-- Claimed, perhaps ended, before its sender, or who moved it, could say so.
local function catch_up(node, sent)
  node.sends = math.max(node.sends, 1)
  if node.held then
    local open = node.prefilled and {DECODE} or {PREFILL, DECODE}
    for _, measures in ipairs(open) do account(node, measures, -1) end
    adopt_estimates(node, sent)
    for _, measures in ipairs(open) do account(node, measures, 1) end
  end
  save_node(sent.node, node)
  tell(sent)
end

local confirmed = 0
for _, sent in ipairs(P.sent) do
  local node = load_node(sent.node)
  if node and node.attempt == sent.attempt then
    if node.status == 'ready' or node.status == 'queued' then
      queue(node, sent)
      confirmed = confirmed + 1
    elseif (node.sends == 0 or sent.moved) and node.claimed_at and is_running() then
      catch_up(node, sent)
    end
  end
end
return confirmed
