-- Holds slots for another lease, and frees others.
--
-- KEYS[1]  see slots_take.lua
-- ARGV: lease (ms), how many are held, those that are held, those that are free.
-- Applied late, it holds for a lease what may be free by then, and frees what the next telling holds again.
local time = redis.call('TIME')
local ends = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1])
local held = tonumber(ARGV[2])
for at = 3, #ARGV do
  if at < 3 + held then
    redis.call('ZADD', KEYS[1], ends, ARGV[at])
  else
    redis.call('ZREM', KEYS[1], ARGV[at])
  end
end
if held > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
