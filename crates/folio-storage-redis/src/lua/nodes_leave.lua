-- Marks an incarnation as dead, permanently. ARGV: incarnation, record, dead_after (ms), ttl (ms).
local key, incarnation = KEYS[1], ARGV[1]
local now = clock()
answering_since(key, now, tonumber(ARGV[3]))
redis.call('HSETNX', key, 'b:' .. incarnation, number(now))
redis.call('HSETNX', key, 'g:' .. incarnation, number(now))
redis.call('HSET', key, 'r:' .. incarnation, ARGV[2])
redis.call('PEXPIRE', key, ARGV[4])
return 1
