-- The oldest are forgotten by the health monitor.
create index idempotency_keys_by_age on houston.idempotency_keys (created_at);
