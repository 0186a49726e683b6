-- What triggers have heard, by tenant: tenants take turns.
create index trigger_firings_of_tenant on houston.trigger_firings (tenant_id, created_at, parent_id, seq);
drop index houston.trigger_firings_by_time;
