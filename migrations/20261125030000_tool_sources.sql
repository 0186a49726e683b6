-- Tools of a tenant's own: documents of HTTP endpoints. Runs read a summary with their tenant's row, and a document
-- only when their process has not compiled it yet.
create table houston.tool_sources (
    tenant_id uuid not null references houston.tenants on delete cascade,
    -- endpoints: a document of HTTP endpoints
    type text not null,
    -- unique among the sources of its type
    name text not null,
    -- as it was sent: TOML or JSON
    document text not null,
    -- the kinds whose agents are offered all of its tools; agents of other kinds list them
    kinds text[] not null,
    -- the names of its tools
    tools text[] not null,
    -- the names of its secrets
    secret_names text[] not null,
    -- an object of its secrets, sealed; null: it has none
    sealed bytea,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (tenant_id, type, name)
);
-- What runs read of them: a list of {type, name, kinds, hash}; null: there are none. Written with them.
alter table houston.tenants add column tool_sources jsonb;
