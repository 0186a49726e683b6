-- Tenants own everything a client can reach. API keys identify clients.
create table houston.tenants (
    id uuid primary key,
    name text not null unique,
    created_at timestamptz not null default now()
);

-- API keys. Only the SHA-256 of a key is stored; its prefix helps people to recognise it.
create table houston.api_keys (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    name text not null,
    prefix text not null,
    secret_sha256 bytea not null unique,
    created_at timestamptz not null default now(),
    revoked_at timestamptz
);

-- Each request looks up the keys with the prefix of its own key.
create index api_keys_by_prefix on houston.api_keys (prefix) where revoked_at is null;

-- Requests with an Idempotency-Key, and what they were answered.
create table houston.idempotency_keys (
    tenant_id uuid not null references houston.tenants,
    key text not null,
    request_sha256 bytea not null,
    -- the resource that the request created
    resource_id uuid not null,
    -- the answer; null for a message, whose answer is built from its row
    response jsonb,
    created_at timestamptz not null default now(),
    primary key (tenant_id, key)
);

-- The health monitor deletes the oldest keys.
create index idempotency_keys_by_age on houston.idempotency_keys (created_at);
