-- queue_ack: messages whose work is done are gone, whoever holds them by now: a lease that ended too
-- early has put them back, and they must not run again.
--
-- A Redis that crashed, or was failed over, may have lost the last writes that it had confirmed: the
-- work may be among them, and the message not. So whoever did it may name a key as its proof; without
-- that key the message goes back to be worked on again.
--
-- KEYS lib/queue. ARGV 1 wake list of the worker or '', 2… pairs of a token and its proof ('' for
-- none). Returns {how many were known and ended, tokens that went back…}.
local answer = {0}
for index = 2, #ARGV, 2 do
  local token, proof = ARGV[index], ARGV[index + 1]
  local value = redis.call('HGET', MESSAGES, token)
  if value then
    local entry = parse(value)
    local held = release(token, entry)
    if proof ~= '' and redis.call('EXISTS', proof) == 0 then
      if held then
        if entry.deliveries == NEVER then entry.deliveries = 0 end
        put_back(token, value, entry, true)
      end
      answer[#answer + 1] = token
    else
      if not held then dequeue(token, entry) end
      forget(token, entry)
      answer[1] = answer[1] + 1
    end
  end
end
if ARGV[1] ~= '' then
  redis.call('LPUSH', ARGV[1], 0)
  redis.call('PEXPIRE', ARGV[1], WAKE_MS)
end
return answer
