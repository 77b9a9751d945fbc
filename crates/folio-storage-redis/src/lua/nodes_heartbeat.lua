-- A heartbeat. ARGV: incarnation, record, joins (1 or 0), gone_after (ms), ttl (ms). Gives 1: kept, 0: gone.
-- Applied late, it keeps a node for gone_after at most, and none that is gone.
local key, incarnation, record = KEYS[1], ARGV[1], ARGV[2]
local gone_after, ttl = tonumber(ARGV[4]), ARGV[5]
local now = clock()
local since = answering_since(key, now, gone_after)
redis.call('PEXPIRE', key, ttl)
if redis.call('HEXISTS', key, 'g:' .. incarnation) == 1 then
  return 0
end
local beat = tonumber(redis.call('HGET', key, 'b:' .. incarnation))
if beat then
  if silence(beat, since, now) > gone_after then
    redis.call('HSET', key, 'g:' .. incarnation, number(now))
    return 0
  end
elseif ARGV[3] ~= '1' and now - since > gone_after then
  return 0
end
redis.call('HSET', key, 'b:' .. incarnation, number(now), 'r:' .. incarnation, record)
return 1
