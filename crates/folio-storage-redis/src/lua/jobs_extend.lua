-- Extends the assignment of a job (keys and shapes: jobs_push.lua). ARGV: id, worker, attempt.
-- Returns 1: the job is assigned to this worker and attempt, 0: it is not.
local pending = redis.pcall('XPENDING', KEYS[1], 'workers', ARGV[1], ARGV[1], 1)
if pending.err or not pending[1] or pending[1][2] ~= ARGV[2] or pending[1][4] ~= tonumber(ARGV[3]) then
  return 0
end
redis.call('XCLAIM', KEYS[1], 'workers', ARGV[2], 0, ARGV[1], 'JUSTID')
return 1
