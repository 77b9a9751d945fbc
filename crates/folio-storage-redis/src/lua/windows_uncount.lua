-- Removes the newest event from a sliding window.
--
-- KEYS[1]  the list of windows_count.lua.
-- Applied late, it removes another event.
redis.call('RPOP', KEYS[1])
return 0
