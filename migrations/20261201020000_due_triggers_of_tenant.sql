-- What is due next in a tenant, for people; triggers of events, which have no time, come last.
create index triggers_due_of_tenant on houston.triggers (tenant_id, next_at) where enabled;
