-- The people a tenant's agents work for.
create table houston.users (
    id uuid primary key,
    -- null: the erasure of this user was requested (houston.erasures), so that no query of a tenant finds the row
    tenant_id uuid references houston.tenants,
    external_id text,
    name text not null,
    time_zone text not null default 'UTC',
    created_at timestamptz not null default now(),
    unique (tenant_id, external_id)
);

-- Lists of a tenant's users.
create index users_by_tenant on houston.users (tenant_id, id);
