-- confirm: the broker has these messages. A queued request stays in the outbox until it is claimed,
-- but is sent again only after P.requeue_ms, doubled each time, in case the queue lost it.
--
-- KEYS lib/workflow. P.sent = {{node, attempt, queue, prefill_tokens?, output_tokens?, prefill_us?,
-- decode_us?, budget?, reasons?, note?}…}; notes go to the stream P.placements, by which routers
-- follow what instances have in their caches. Returns how many were waiting for it.
local confirmed = 0
for _, sent in ipairs(P.sent) do
  local node = load_node(sent.node)
  local waits = node and (node.status == 'ready' or node.status == 'queued')
  if waits and node.attempt == sent.attempt then
    release(node)
    node.status = 'queued'
    node.queue = sent.queue
    node.queued_at = stamp
    node.sends = node.sends + 1
    for _, measures in ipairs({PREFILL, DECODE}) do
      for _, measure in ipairs(measures) do node[measure] = sent[measure] or node[measure] end
    end
    node.budget = sent.budget or node.budget
    hold(node, 'waiting')
    save_node(sent.node, node)
    local again_ms = now_ms + P.requeue_ms * 2 ^ (node.sends - 1)
    redis.call('ZADD', OUTBOX, string.format('%d', again_ms), member(sent.node, sent.attempt))
    local facts = sent.reasons or {}
    facts.node = sent.node
    facts.attempt = sent.attempt
    facts.queue = sent.queue
    trace('sent', facts)
    if sent.note then
      redis.call('XADD', P.placements, 'MAXLEN', '~', P.placements_kept, '*', 'n', sent.note)
    end
    confirmed = confirmed + 1
  end
end
return confirmed
