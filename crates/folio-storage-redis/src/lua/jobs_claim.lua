-- Takes jobs (keys and shapes: jobs_push.lua): abandoned ones first, then new ones by position.
-- ARGV: worker, limit, abandoned_after (ms), ttl (ms). Returns [id, key, group, payload, attempt]...
-- Applied late, it assigns jobs to a worker that does not work on them: these jobs become abandoned.
local stream, worker, limit = KEYS[1], ARGV[1], tonumber(ARGV[2])
if redis.call('EXISTS', stream) == 0 then
  return {}
end
redis.pcall('XGROUP', 'CREATE', stream, 'workers', '0')
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[4])
end
local found = {}
local function add(entry)
  local fields = {}
  for at = 1, #entry[2], 2 do
    fields[entry[2][at]] = entry[2][at + 1]
  end
  local pending = redis.call('XPENDING', stream, 'workers', entry[1], entry[1], 1)
  found[#found + 1] = { entry[1], fields['key'], fields['group'], fields['payload'], pending[1][4] }
end
local cursor = '0-0'
repeat
  local claimed = redis.call('XAUTOCLAIM', stream, 'workers', worker, ARGV[3], cursor, 'COUNT', limit - #found)
  cursor = claimed[1]
  for _, entry in ipairs(claimed[2]) do
    add(entry)
  end
until cursor == '0-0' or #found >= limit
if #found < limit then
  local next = redis.call('ZPOPMIN', KEYS[3], limit - #found)
  for at = 1, #next, 2 do
    local claimed = redis.call('XCLAIM', stream, 'workers', worker, 0, next[at], 'RETRYCOUNT', 1, 'FORCE')
    if claimed[1] then
      add(claimed[1])
    end
    redis.call('HSET', KEYS[4], 'position', next[at + 1])
  end
end
return found
