-- Appends events of a turn.
--
-- KEYS[1]  PREFIX:{ORG TURN}:events:meta  hash: epoch, owner, next (number of the next event), first (number of the oldest
--                                     stored event), bytes, whole (1: no event before the oldest is missing)
-- KEYS[2]  PREFIX:{ORG TURN}:events       list of the events (JSON), numbers first to next - 1
-- Both expire ttl after the last event.
-- ARGV: epoch, owner, count_max, bytes_max, ttl (ms), then for each event its number, 1 if it is a snapshot, and the event.
-- Returns [0]: done, [1]: begin with a snapshot, [2, epoch]: a later owner has written.
local meta_key, list = KEYS[1], KEYS[2]
local epoch, owner = tonumber(ARGV[1]), ARGV[2]
local meta = redis.call('HMGET', meta_key, 'epoch', 'owner', 'next', 'first', 'bytes', 'whole')
local following, first, bytes, whole
if meta[1] then
  local old = tonumber(meta[1])
  if epoch < old or (epoch == old and owner ~= meta[2]) then
    return { 2, old }
  end
  if epoch == old and redis.call('LLEN', list) == tonumber(meta[3]) - tonumber(meta[4]) then
    following, first, bytes, whole = tonumber(meta[3]), tonumber(meta[4]), tonumber(meta[5]), tonumber(meta[6])
  end
end
local answer = { 0 }
for at = 6, #ARGV, 3 do
  local number, snapshot, event = tonumber(ARGV[at]), ARGV[at + 1] == '1', ARGV[at + 2]
  if following and number < following then
    -- The event is stored already.
  elseif snapshot or (not following and number == 1) then
    redis.call('DEL', list)
    redis.call('RPUSH', list, event)
    following, first, bytes, whole = number + 1, number, #event, 1
  elseif following and number == following then
    redis.call('RPUSH', list, event)
    following, bytes = number + 1, bytes + #event
  else
    answer = { 1 }
    break
  end
end
if not following then
  return answer
end
local length = following - first
while length > 1 and (length > tonumber(ARGV[3]) or bytes > tonumber(ARGV[4])) do
  bytes = bytes - #redis.call('LPOP', list)
  first, length, whole = first + 1, length - 1, 0
end
redis.call('HSET', meta_key, 'epoch', ARGV[1], 'owner', owner, 'next', string.format('%.0f', following), 'first',
  string.format('%.0f', first), 'bytes', string.format('%.0f', bytes), 'whole', string.format('%.0f', whole))
redis.call('PEXPIRE', meta_key, ARGV[5])
redis.call('PEXPIRE', list, ARGV[5])
return answer
