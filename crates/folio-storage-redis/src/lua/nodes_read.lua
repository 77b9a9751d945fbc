-- Every node; makes silences that are too long final, forgets what went long ago.
-- ARGV: gone_after (ms), gone_shown (ms), ttl (ms). Gives [answering for (ms), [record, silent for (ms), gone (1 or 0)]...].
local key, gone_after, gone_shown = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local now = clock()
local since = answering_since(key, now, gone_after)
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
    local gone = tonumber(values['g:' .. incarnation])
    if not gone and silent > gone_after then
      gone = now
      redis.call('HSET', key, 'g:' .. incarnation, number(now))
    end
    if gone and now - gone > gone_shown then
      redis.call('HDEL', key, 'r:' .. incarnation, 'b:' .. incarnation, 'g:' .. incarnation)
    else
      found[#found + 1] = { record, silent, gone and 1 or 0 }
    end
  end
end
return found
