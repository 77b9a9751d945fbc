-- Takes a slot, where there is one.
--
-- KEYS[1]  PREFIX:{ORG}:slots:KIND  sorted set: the slots that are held, by the end of their lease (ms); lives for a lease
-- ARGV: slot, how many there are, lease (ms). Gives 1: taken, 0: all are held.
-- Applied late, the slot is held for a lease.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
