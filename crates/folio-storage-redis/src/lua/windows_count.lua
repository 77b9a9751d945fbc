-- Counts an event in a sliding window.
--
-- KEYS[1]  PREFIX:{ORG}:window:NAME  list: times of the events (ms), oldest first; expires a period after the last one
-- ARGV: maximum number of events, period (ms). Returns the retry delay (ms), or if counted -1 minus the number of events
-- that the window still permits.
-- Applied late, it counts the event once more.
local max, period = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local oldest = tonumber(redis.call('LINDEX', KEYS[1], 0))
while oldest and now - oldest >= period do
  redis.call('LPOP', KEYS[1])
  oldest = tonumber(redis.call('LINDEX', KEYS[1], 0))
end
if oldest and redis.call('LLEN', KEYS[1]) >= max then
  return oldest + period - now
end
local length = redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], period)
return -1 - math.max(0, max - length)
