-- Called when a run has written a feed: what it collected does not belong to the next conversation, so the session is
-- closed. The run still holds the lock, so the session is closed after its release and before the next run.
create or replace function houston.feed_generation_complete(p_agentable uuid, p_run uuid) returns void
language plpgsql as $$
begin
    perform houston.close_session(p_agentable, 'feed_generation_complete');
end;
$$;
