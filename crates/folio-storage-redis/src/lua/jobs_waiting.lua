-- Returns the number of jobs without a worker (keys and shapes: jobs_push.lua).
-- Applied late, it changes nothing.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local taken = redis.pcall('XPENDING', KEYS[1], 'workers')
-- Without the group no job was taken yet.
return redis.call('XLEN', KEYS[1]) - (taken.err and 0 or taken[1])
