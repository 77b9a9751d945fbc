-- Returns all nodes; marks silent ones as dead and removes those that died long ago.
-- ARGV: dead_after (ms), dead_listed_for (ms), ttl (ms). Result: [available for (ms), [record, silent for (ms), dead (1 or 0)]...].
local key, dead_after, dead_listed_for = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local now = clock()
local since = answering_since(key, now, dead_after)
redis.call('PEXPIRE', key, ARGV[3])
local found = { now - since }
local fields = redis.call('HGETALL', key)
local values = {}
for at = 1, #fields, 2 do
  values[fields[at]] = fields[at + 1]
end
for field, record in pairs(values) do
  if string.sub(field, 1, 2) == 'r:' then
    local incarnation = string.sub(field, 3)
    local silent = silence(tonumber(values['b:' .. incarnation] or '0'), since, now)
    local dead_since = tonumber(values['g:' .. incarnation])
    if not dead_since and silent > dead_after then
      dead_since = now
      redis.call('HSET', key, 'g:' .. incarnation, number(now))
    end
    if dead_since and now - dead_since > dead_listed_for then
      redis.call('HDEL', key, 'r:' .. incarnation, 'b:' .. incarnation, 'g:' .. incarnation)
    else
      found[#found + 1] = { record, silent, dead_since and 1 or 0 }
    end
  end
end
return found
