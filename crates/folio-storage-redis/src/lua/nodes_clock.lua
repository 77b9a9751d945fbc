-- Put before the scripts of the nodes.
--
-- KEYS[1]  PREFIX:{nodes}  hash, lives for ARGV ttl after the last heartbeat or read:
--   last          when a script was last run (ms by this server's clock)
--   since         from when on it has been answering, with this data and without a gap
--   r:INCARNATION what the node said last (JSON)
--   b:INCARNATION when (ms)
--   g:INCARNATION since when it is gone for good (ms)

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function number(value)
  return string.format('%.0f', value)
end

-- From when on this server has been answering. While a node lives the calls are never half of gone_after apart.
local function answering_since(key, now, gone_after)
  local last = tonumber(redis.call('HGET', key, 'last'))
  local since = tonumber(redis.call('HGET', key, 'since'))
  if not last or not since or now < last or now - last > gone_after / 2 then
    since = now
    redis.call('HSET', key, 'since', number(now))
  end
  redis.call('HSET', key, 'last', number(now))
  return since
end

-- How long it has been answering without this heartbeat.
local function silence(beat, since, now)
  return now - math.max(math.min(beat, now), since)
end
