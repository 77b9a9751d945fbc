-- Returns the states of members of an index; removes members without a state.
-- KEYS: the index, then the turn of each member (shapes: turns_publish.lua). ARGV: the members.
local found = {}
for at, member in ipairs(ARGV) do
  local turn = redis.call('HMGET', KEYS[at + 1], 'state', 'member')
  if turn[1] and turn[2] == member then
    found[#found + 1] = turn[1]
  else
    redis.call('ZREM', KEYS[1], member)
  end
end
return found
