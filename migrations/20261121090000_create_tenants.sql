-- Tenants own everything a client can reach; keys let clients in.
create table houston.tenants (
    id uuid primary key,
    name text not null unique,
    created_at timestamptz not null default now()
);

-- Only the SHA-256 of a key is stored; the prefix lets a person recognise it.
create table houston.api_keys (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    name text not null,
    prefix text not null,
    secret_sha256 bytea not null unique,
    created_at timestamptz not null default now(),
    revoked_at timestamptz
);

-- Every request asks for the keys that begin like its own.
create index api_keys_by_prefix on houston.api_keys (prefix) where revoked_at is null;

-- What a client sent under an Idempotency-Key, and what it was answered.
create table houston.idempotency_keys (
    tenant_id uuid not null references houston.tenants,
    key text not null,
    request_sha256 bytea not null,
    -- the resource that was made; of a message, the rest of the answer stands in its row
    resource_id uuid not null,
    response jsonb,
    created_at timestamptz not null default now(),
    primary key (tenant_id, key)
);
