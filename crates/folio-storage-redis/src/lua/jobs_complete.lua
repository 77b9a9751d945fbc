-- Ends a job (keys and shapes: jobs_push.lua). KEYS: jobs, keys, groups. ARGV: id, worker, attempt, key, group.
-- Returns 1: the job was assigned to this worker and attempt, 0: it was not.
local pending = redis.pcall('XPENDING', KEYS[1], 'workers', ARGV[1], ARGV[1], 1)
if pending.err or not pending[1] or pending[1][2] ~= ARGV[2] or pending[1][4] ~= tonumber(ARGV[3]) then
  return 0
end
redis.call('XACK', KEYS[1], 'workers', ARGV[1])
redis.call('XDEL', KEYS[1], ARGV[1])
if redis.call('HGET', KEYS[2], ARGV[4]) == ARGV[1] then
  redis.call('HDEL', KEYS[2], ARGV[4])
end
if redis.call('HINCRBY', KEYS[3], 'jobs ' .. ARGV[5], -1) <= 0 then
  -- The jobs of the group were claimed, so their positions are not after `position`.
  redis.call('HDEL', KEYS[3], 'jobs ' .. ARGV[5], 'position ' .. ARGV[5])
end
return 1
