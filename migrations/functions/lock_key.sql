-- Locks an idempotency key until the end of the transaction. Batches leave out a request whose key another transaction
-- has locked, instead of waiting for the end of that transaction.
create or replace function houston.lock_key(p_tenant uuid, p_key text) returns void language sql as $$
    select pg_advisory_xact_lock(3, hashtext(p_tenant::text || p_key));
$$;
