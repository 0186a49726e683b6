-- What is due next in a tenant, for people.
create index triggers_due_of_tenant on houston.triggers (tenant_id, next_at) where enabled and next_at is not null;
