-- Events of a turn from a number on (keys and shapes: events_append.lua). ARGV: from, limit.
-- Returns the events, or false if they are not stored.
local meta = redis.call('HMGET', KEYS[1], 'next', 'first', 'whole')
if not meta[1] then
  return false
end
local from, following, first = tonumber(ARGV[1]), tonumber(meta[1]), tonumber(meta[2])
if redis.call('LLEN', KEYS[2]) ~= following - first then
  return false
end
if from < first and meta[3] == '1' then
  from = first
end
if from < first or from > following then
  return false
end
return redis.call('LRANGE', KEYS[2], from - first, from - first + tonumber(ARGV[2]) - 1)
