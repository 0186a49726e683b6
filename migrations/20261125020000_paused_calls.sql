-- A tool call that has begun and goes on later: what its tool needs for that, and what it waits for, as JSON. Text, because
-- jsonb has no U+0000, and a server gets back what it sent, byte for byte.
alter table houston.tool_calls add column paused text;
