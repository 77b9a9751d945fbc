-- The shared functions of the nodes_*.lua scripts. The adapter prepends this file to each of them.
--
-- KEYS[1]  PREFIX:{nodes}  hash, expires ARGV ttl after the last heartbeat or read:
--   last          time of the last script (ms by this server's clock)
--   since         time since which calls have arrived without a gap and the data was not lost (ms)
--   r:INCARNATION last heartbeat (JSON)
--   b:INCARNATION time of the last heartbeat (ms)
--   g:INCARNATION time of death (ms)

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function number(value)
  return string.format('%.0f', value)
end

-- Returns the time since which the server has been available. While a node is live, two calls are never as far apart as
-- half of dead_after.
local function answering_since(key, now, dead_after)
  local last = tonumber(redis.call('HGET', key, 'last'))
  local since = tonumber(redis.call('HGET', key, 'since'))
  if not last or not since or now < last or now - last > dead_after / 2 then
    since = now
    redis.call('HSET', key, 'since', number(now))
  end
  redis.call('HSET', key, 'last', number(now))
  return since
end

-- Returns the available time since this heartbeat.
local function silence(beat, since, now)
  return now - math.max(math.min(beat, now), since)
end
