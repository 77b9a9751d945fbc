-- Adds a job unless one with its key exists.
--
-- KEYS[1]  PREFIX:{queue:NAME}:jobs    stream with the consumer group `workers`, whose consumers are incarnations; an
--                                      entry has the fields key, group and payload
-- KEYS[2]  PREFIX:{queue:NAME}:keys    hash: id of the entry by the key of its job
-- KEYS[3]  PREFIX:{queue:NAME}:order   sorted set: ids of the jobs without a worker by position
-- KEYS[4]  PREFIX:{queue:NAME}:groups  hash: `position`, the highest position of a claimed job; for each group with jobs,
--                                      `position GROUP`, that of its newest job, and `jobs GROUP`, their number
-- KEYS[5]  PREFIX:{queue:NAME}:pushed  list: an item for each added job that woke no worker yet, at most
--                                      notifications_max of them
-- All expire ttl after the last push or claim, the list after the last push. The position of a job is one after the newest
-- job of its group and after the claimed jobs, so that groups take turns.
-- ARGV: key, payload, jobs_max, ttl (ms), group, jobs_max of a group, notifications_max.
-- Returns 1: added, 0: the job exists, -1: the queue is full, or full of jobs of the group.
-- Applied late, it may repeat a job that has ended.
local groups, group = KEYS[4], ARGV[5]
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then
  return 0
end
local function number(field)
  return tonumber(redis.call('HGET', groups, field) or 0)
end
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[3]) or number('jobs ' .. group) >= tonumber(ARGV[6]) then
  return -1
end
local id = redis.call('XADD', KEYS[1], '*', 'key', ARGV[1], 'group', group, 'payload', ARGV[2])
local position = math.max(number('position'), number('position ' .. group)) + 1
redis.call('HSET', KEYS[2], ARGV[1], id)
redis.call('ZADD', KEYS[3], position, id)
redis.call('HSET', groups, 'position ' .. group, position)
redis.call('HINCRBY', groups, 'jobs ' .. group, 1)
if redis.call('LLEN', KEYS[5]) < tonumber(ARGV[7]) then
  redis.call('RPUSH', KEYS[5], 1)
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[4])
end
return 1
