-- Takes a slot if one is free.
--
-- KEYS[1]  PREFIX:{ORG}:slots:KIND  sorted set: taken slots by the end of their lease (ms); expires after a lease
-- ARGV: slot, number of slots, lease (ms). Returns 1: taken, 0: none is free.
-- Applied late, the slot is taken for a lease.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
