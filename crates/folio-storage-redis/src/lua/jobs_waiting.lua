-- Returns the number of jobs without a worker (KEYS[1]: the key `order` of jobs_push.lua).
-- Applied late, it changes nothing.
return redis.call('ZCARD', KEYS[1])
