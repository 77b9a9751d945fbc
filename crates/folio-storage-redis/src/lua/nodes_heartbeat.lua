-- Stores a heartbeat. ARGV: incarnation, record, joins (1 or 0), dead_after (ms), ttl (ms). Returns 1: live, 0: dead.
-- Applied late, it keeps a live node live for at most dead_after; it revives no dead node.
local key, incarnation, record = KEYS[1], ARGV[1], ARGV[2]
local dead_after, ttl = tonumber(ARGV[4]), ARGV[5]
local now = clock()
local since = answering_since(key, now, dead_after)
redis.call('PEXPIRE', key, ttl)
if redis.call('HEXISTS', key, 'g:' .. incarnation) == 1 then
  return 0
end
local beat = tonumber(redis.call('HGET', key, 'b:' .. incarnation))
if beat then
  if silence(beat, since, now) > dead_after then
    redis.call('HSET', key, 'g:' .. incarnation, number(now))
    return 0
  end
elseif ARGV[3] ~= '1' and now - since > dead_after then
  return 0
end
redis.call('HSET', key, 'b:' .. incarnation, number(now), 'r:' .. incarnation, record)
return 1
