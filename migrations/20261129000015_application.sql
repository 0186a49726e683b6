-- What applications may call, from transactions of their own. A login needs the role houston_app and nothing else:
--   grant houston_app to LOGIN;
-- The functions run with the rights of Houston's owner and read and write what their description says. Signatures and results
-- stay; what changes them gets another name, and counts up the version.
create schema houston_app;

-- 1: post_message and close_session.
create function houston_app.version() returns integer language sql immutable parallel safe as 'select 1';

-- Posts a message to an agentable, as its user: see houston.post_message. Workers are notified at commit; if the transaction is
-- rolled back, nothing was posted. Returns the id of the message. Raises HO404, HO409, HO413, HO422 and HO429.
create function houston_app.post_message(
    agentable uuid, content text, idempotency_key text default null, double_texting text default 'enqueue'
) returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return houston.post_message(agentable, content, idempotency_key, double_texting);
end;
$$;

-- Closes the open session of an agentable, so that its next message starts with an empty history: see houston.close_session.
-- Returns 'closed', 'deferred' or 'nothing'. Raises HO404.
create function houston_app.close_session(agentable uuid)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return houston.close_session(agentable, 'reset');
end;
$$;

-- Who creates a function lets everybody execute it. The role gets its rights after the migrations, once it exists.
revoke execute on all functions in schema houston_app from public;
