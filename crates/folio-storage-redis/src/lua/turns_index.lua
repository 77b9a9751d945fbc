-- Enters a turn that runs.
--
-- KEYS[1]  PREFIX:{INCARNATION}:running  set: ORG TURN of each turn that runs under the incarnation, ended ones too for a while
-- Lives for ttl after the last turn was entered.
-- ARGV: member, ttl (ms). Applied late, it enters a turn that ended: whoever reads the index reads the thread.
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
