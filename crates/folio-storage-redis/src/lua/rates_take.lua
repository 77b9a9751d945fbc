-- Takes tokens from a bucket.
--
-- KEYS[1]  PREFIX:{ORG}:rate:NAME  hash: level (tokens), at (time of the level, ms); expires when it is full again
-- ARGV: burst, per second, cost. Returns the retry delay (ms), or if allowed -1 minus the tokens that are left.
-- Applied late, it takes tokens once more.
local burst, per_ms, cost = tonumber(ARGV[1]), tonumber(ARGV[2]) / 1000, tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local bucket = redis.call('HMGET', KEYS[1], 'level', 'at')
local level = burst
if bucket[1] then
  level = math.min(burst, tonumber(bucket[1]) + math.max(0, now - tonumber(bucket[2])) * per_ms)
end
if level < cost then
  if per_ms <= 0 or cost > burst then
    return 86400000
  end
  return math.ceil((cost - level) / per_ms)
end
level = level - cost
redis.call('HSET', KEYS[1], 'level', string.format('%.6f', level), 'at', string.format('%.0f', now))
local full = 86400000
if per_ms > 0 then
  full = math.min(full, math.ceil((burst - level) / per_ms) + 1000)
end
redis.call('PEXPIRE', KEYS[1], full)
return -1 - math.floor(level)
