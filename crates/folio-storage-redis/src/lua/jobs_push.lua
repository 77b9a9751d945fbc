-- Adds a job unless one with its key exists.
--
-- KEYS[1]  PREFIX:{queue:NAME}:jobs  stream with the consumer group `workers`, whose consumers are incarnations; an entry
--                                    has the fields key and payload
-- KEYS[2]  PREFIX:{queue:NAME}:keys  hash: id of the entry by the key of its job
-- Both expire ttl after the last push or claim.
-- ARGV: key, payload, jobs_max, ttl (ms). Returns 1: added, 0: the job exists, -1: the queue is full.
-- Applied late, it may repeat a job that has ended.
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then
  return 0
end
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[3]) then
  return -1
end
local id = redis.call('XADD', KEYS[1], '*', 'key', ARGV[1], 'payload', ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], id)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
