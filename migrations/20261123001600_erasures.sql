-- Erasures of users, and of agentables with their tasks. When a request is committed, its rows have no tenant any more,
-- so no query of a tenant finds them, and their rows in houston.run_locks are deleted, so no run, message or report can
-- take the lock that it needs to write. The workers delete the rest in batches.

-- One row per request, which is kept. It contains no erased content.
create table houston.erasures (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    -- the API key of the request
    api_key_id uuid references houston.api_keys,
    -- 'user', or the kind of an agentable
    kind text not null,
    resource_id uuid not null,
    requested_at timestamptz not null default clock_timestamp(),
    completed_at timestamptz,
    -- number of deleted rows, by table
    deleted jsonb not null default '{}',
    -- progress: the agentables to erase, the current phase, and the key up to which it is done
    agentables uuid[] not null default '{}',
    phase text not null default 'requests' check (phase in ('requests', 'rows', 'answers', 'done')),
    after_key text not null default '',
    swept_at timestamptz not null default '-infinity',
    unique (tenant_id, resource_id)
);

create index erasures_by_tenant on houston.erasures (tenant_id, id);
-- Unfinished erasures; the one that was continued the longest time ago comes first.
create index erasures_open on houston.erasures (swept_at) where completed_at is null;

-- Cost of the model calls of erased users, by tenant and day (UTC), so that a tenant's totals stay correct.
create table houston.erased_spending (
    tenant_id uuid not null references houston.tenants,
    day date not null,
    cost numeric,
    model_calls integer not null,
    unpriced_calls integer not null,
    primary key (tenant_id, day)
);
