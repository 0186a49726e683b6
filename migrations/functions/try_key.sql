-- Locks an idempotency key as houston.lock_key does; false if another transaction has locked it.
create or replace function houston.try_key(p_tenant uuid, p_key text) returns boolean language sql as $$
    select pg_try_advisory_xact_lock(3, hashtext(p_tenant::text || p_key));
$$;
