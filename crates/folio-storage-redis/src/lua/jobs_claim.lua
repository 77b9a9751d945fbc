-- Takes jobs (keys and shapes: jobs_push.lua): abandoned ones first, then new ones.
-- ARGV: worker, limit, abandoned_after (ms), ttl (ms). Returns [id, key, payload, attempt]...
-- Applied late, it assigns jobs to a worker that does not work on them: these jobs become abandoned.
local stream, worker, limit = KEYS[1], ARGV[1], tonumber(ARGV[2])
if redis.call('EXISTS', stream) == 0 then
  return {}
end
redis.pcall('XGROUP', 'CREATE', stream, 'workers', '0')
redis.call('PEXPIRE', stream, ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
local found = {}
local function add(entry)
  local fields = {}
  for at = 1, #entry[2], 2 do
    fields[entry[2][at]] = entry[2][at + 1]
  end
  local pending = redis.call('XPENDING', stream, 'workers', entry[1], entry[1], 1)
  found[#found + 1] = { entry[1], fields['key'], fields['payload'], pending[1][4] }
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
  local read = redis.call('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', limit - #found, 'STREAMS', stream, '>')
  if read then
    for _, entry in ipairs(read[1][2]) do
      add(entry)
    end
  end
end
return found
