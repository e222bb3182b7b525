-- queue_rescore: gives a message another latest start and last feasible moment. One that waits moves
-- to its new place at once, as often passed over as before; one that is leased has it when it comes
-- back.
--
-- KEYS lib/queue. ARGV 1 token, 2 latest start, 3 last feasible moment. Returns 1, or 0 if unknown.
local token = ARGV[1]
local value = redis.call('HGET', MESSAGES, token)
if not value then return 0 end
local entry = parse(value)
local waits = take_out(token, entry)
entry.key, entry.feasible_until = tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('HSET', MESSAGES, token, format_header(entry) .. string.sub(value, HEADER_BYTES + 1))
if waits then enqueue(token, entry) end
return 1
