-- start: a question becomes a running workflow with its first nodes. Starting one twice changes
-- nothing; one that was cancelled before it started ends as cancelled.
--
-- KEYS lib/workflow. ARGV 3 submission, 4 memory, 5 outcome, 6… specs of P.add.
-- P adds deadline_ms, expires_ms, submitted_at, tenant, slo_class, most (questions of the tenant that
-- may run at once; absent: any number).
-- Returns {'started'} | {'exists'} | {'cancelled'} | {'full'} | {'parts', index…} (to store first).
local status = redis.call('HGET', WORKFLOW, 'status')
if status then
  if redis.call('HSETNX', WORKFLOW, 'submission', ARGV[3]) == 0 then return {'exists'} end
  redis.call('ZADD', OUTBOX, now_ms + P.resend_ms, ID)
  record('end')
  return {'cancelled'}
end
local running = running_of(P.tenant)
local refused = running .. ':refused:' .. ID
redis.call('ZREMRANGEBYSCORE', running, '-inf', string.format('%d', now_ms))
if P.most and (redis.call('EXISTS', refused) == 1 or redis.call('ZCARD', running) >= P.most) then
  -- A refusal is looked at twice, by us and by Celery, and may be delivered again: the first look
  -- decides, or a question for which room was made in between would count as refused and accepted.
  if redis.call('SET', refused, 1, 'NX', 'PX', P.resend_ms) then
    count_question(P.tenant, P.slo_class, 'refused')
  end
  return {'full'}
end
local missing = missing_parts()
if #missing > 0 then return {'parts', unpack(missing)} end
keep_parts(P.expires_ms)

redis.call('HSET', WORKFLOW, 'submission', ARGV[3], 'status', 'running', 'version', 0,
  'started_at', stamp, 'expires_ms', string.format('%d', P.expires_ms),
  'tenant', P.tenant, 'slo_class', P.slo_class)
redis.call('ZADD', running, string.format('%d', P.expires_ms), ID)
count_question(P.tenant, P.slo_class, 'accepted')
redis.call('ZADD', DEADLINES, string.format('%d', P.deadline_ms), ID)
trace('started', {submitted_at = P.submitted_at, deadline = P.deadline_ms / 1000,
  definition = P.definition, database = P.database, tenant = P.tenant,
  slo_class = P.slo_class, slo_seconds = P.slo_seconds})
record('begin')
apply_expansion(ARGV[4], ARGV[5], 6)
if is_running() then expire_all(P.expires_ms) end
return {'started'}
