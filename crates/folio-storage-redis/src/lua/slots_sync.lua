-- Renews the leases of slots, and frees other slots.
--
-- KEYS[1]  see slots_take.lua
-- ARGV: lease (ms), number of slots to renew, their names, names of slots to free.
-- Applied late, it takes free slots for one lease, and frees slots that the next renewal takes again.
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
