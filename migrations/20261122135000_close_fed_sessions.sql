-- A feed was written: what was gathered for it is no part of the next conversation. The run that wrote it still holds the
-- agentable, so the session is closed when it has let go, before the next run begins.
create or replace function houston.feed_generation_complete(p_agentable uuid, p_run uuid) returns void
language plpgsql as $$
begin
    perform houston.close_session(p_agentable, 'feed_generation_complete');
end;
$$;
