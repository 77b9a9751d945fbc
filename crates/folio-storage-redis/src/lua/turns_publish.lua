-- Stores the state of a turn, unless a later one is stored.
--
-- KEYS[1]  PREFIX:{ORG}:turn:TURN     hash: epoch, version, state (JSON), member (the turn's member in the indexes, or empty)
-- KEYS[2]  PREFIX:{ORG}:waiting       sorted set, scores 0: SINCE:TURN of each turn that waits for decisions
-- KEYS[3]  PREFIX:{ORG}:waiting:USER  the same for the turns that one user started
-- The state expires ttl after its publication, an index with the longest of its states.
-- ARGV: epoch, version, state, member, ttl (ms). Returns 1: the state is stored, 0: a later state is stored.
local epoch, version, member, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[4], tonumber(ARGV[5])
local old = redis.call('HMGET', KEYS[1], 'epoch', 'version', 'member')
if old[1] then
  local old_epoch, old_version = tonumber(old[1]), tonumber(old[2])
  if old_epoch > epoch or (old_epoch == epoch and old_version > version) then
    return 0
  end
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'version', ARGV[2], 'state', ARGV[3], 'member', member)
redis.call('PEXPIRE', KEYS[1], ttl)
for index = 2, 3 do
  if old[3] and old[3] ~= '' and old[3] ~= member then
    redis.call('ZREM', KEYS[index], old[3])
  end
  if member ~= '' then
    redis.call('ZADD', KEYS[index], 0, member)
    if redis.call('PTTL', KEYS[index]) < ttl then
      redis.call('PEXPIRE', KEYS[index], ttl)
    end
  end
end
return 1
