-- forget: removes what still names a workflow whose own keys are gone.
--
-- KEYS 1 outbox, 2 deadlines, 3 running. ARGV members. Returns how many memberships were removed.
local removed = 0
for _, key in ipairs(KEYS) do
  for _, name in ipairs(ARGV) do removed = removed + redis.call('ZREM', key, name) end
end
return removed
