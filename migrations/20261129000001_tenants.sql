-- What agents know: of one agentable (notes, learnings), or of a user and shared by all their agents (custom
-- instructions, memories, feed items; the profile).
-- houston.likeness compares words by trigrams. If the database has the extension already, its schema is not changed.
create extension if not exists pg_trgm with schema houston;

-- Tenants own everything a client can reach. API keys identify clients.
create table houston.tenants (
    id uuid primary key,
    name text not null unique,
    created_at timestamptz not null default now(),
    -- Guards of tenants, users and agentables: what agents may do with their tools, below what jobs/guards.toml and the agent
    -- type allow (a `GuardSettings` as JSON); null: no further restriction. Those of an agent are a key of its settings.
    guards jsonb,
    -- What runs read of them: a list of {type, name, kinds, hash}; null: there are none. Written with them.
    tool_sources jsonb
);

-- API keys. Only the SHA-256 of a key is stored; its prefix helps people to recognise it.
create table houston.api_keys (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    name text not null,
    prefix text not null,
    secret_sha256 bytea not null unique,
    created_at timestamptz not null default now(),
    revoked_at timestamptz,
    -- names of scopes: read, post, manage_agents, operate, admin
    scopes text[] not null default '{admin}',
    -- The only user that the key reads and writes for; null: all users of the tenant. No foreign key: keys are copied to
    -- all cells, users are not.
    user_id uuid,
    -- the only agentables of that user; null: all
    agentables uuid[],
    expires_at timestamptz,
    -- at most a minute old
    last_used_at timestamptz,
    -- of a client token: the key that made it, and without which it is not valid
    parent_id uuid references houston.api_keys on delete cascade,
    -- {"issuer", "jwks_url", "audience", "user_claim"}; null: an ordinary key
    issuer jsonb,
    -- What an API key may do, for whom and for how long; and client tokens, which keys make for browsers and phones.
    constraint api_keys_of_user check (agentables is null or user_id is not null),
    constraint api_keys_client_tokens check (parent_id is null or (user_id is not null and expires_at is not null)),
    -- Issuers of JWTs: keys without a secret of their own. A request has a token that the issuer signed for one user.
    constraint api_keys_issuers check (
         issuer is null or (user_id is null and agentables is null and parent_id is null and scopes <@ '{read,post}'))
);

-- Each request looks up the keys with the prefix of its own key.
create index api_keys_by_prefix on houston.api_keys (prefix) where revoked_at is null;
-- The keys of a user who is erased.
create index api_keys_by_user on houston.api_keys (user_id) where user_id is not null;
-- The client tokens of a key: those that have expired are deleted when it makes another.
create index api_keys_by_parent on houston.api_keys (parent_id, expires_at) where parent_id is not null;
-- A token belongs to one tenant, by its issuer and its audience.
create unique index api_keys_by_issuer on houston.api_keys ((issuer ->> 'issuer'), (issuer ->> 'audience'))
    where issuer is not null and revoked_at is null;

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

-- The people a tenant's agents work for.
create table houston.users (
    id uuid primary key,
    -- null: the erasure of this user was requested (houston.erasures), so that no query of a tenant finds the row
    tenant_id uuid references houston.tenants,
    external_id text,
    name text not null,
    time_zone text not null default 'UTC',
    created_at timestamptz not null default now(),
    guards jsonb,
    -- What runs read of the user's own: as `tenants.tool_sources`.
    tool_sources jsonb,
    unique (tenant_id, external_id)
);

-- Lists of a tenant's users.
create index users_by_tenant on houston.users (tenant_id, id);
-- What a move of users to another cell finds by their shards, or by whose it is. Rows are added rarely, so that an index costs little.
create index users_by_shard on houston.users (right(id::text, 4));

-- The numbers of jobs/ that SQL functions need where no caller passes them. Each process writes them when it starts
-- (houston_store::settings); until then the defaults below apply.
create table houston.settings (
    name text primary key,
    value integer not null
);
insert into houston.settings (name, value) values
    ('tasks.note_chars', 16000), ('tasks.report_chars', 4000), ('tasks.report_notes', 20),
    ('session.extract_chars', 200), ('session.extract_entries', 40), ('session.extract_texts', 5),
    ('fairness.max_running', 10), ('fairness.max_pending', 10000);
-- Like `[files]` of jobs/knowledge.toml: the end of a task moves its files to another workspace.
insert into houston.settings (name, value) values ('files.max_files', 1000), ('files.max_bytes', 16777216)
on conflict (name) do nothing;
-- How deep tasks may nest and how many may be open, which a trigger's task keeps to as well: `[tasks]` of jobs/orchestrator.toml.
insert into houston.settings (name, value) values ('tasks.max_depth', 1), ('tasks.max_open', 5)
    on conflict do nothing;

-- The secrets of this installation: one row, generated here. No API returns them.
create table houston.installation (
    only_row boolean primary key default true check (only_row),
    -- the key for the marks of frames, see crates/store/src/run/run_context.rs
    frame_secret bytea not null
);
insert into houston.installation (frame_secret)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- The files of migrations/functions that were applied. `houston migrate` applies those whose hash differs.
create table houston.functions (
    -- the name of the file, which is the name of its functions
    name text primary key,
    sha256 bytea not null,
    applied_at timestamptz not null default now()
);

-- How much of its rate limits each user and each API key has used (`jobs/rates.toml`). A limit is one time, as the generic
-- cell rate algorithm has it: when nothing would be used any more if nothing more came. Rows are not logged, so that
-- asking waits for no disk; after a crash of Postgres the table is empty, and everybody has one burst more. Who has no row
-- has used nothing.
create unlogged table houston.rates (
    -- the user, or the API key
    owner_id uuid not null,
    -- the limit: `requests`, `key`, `tokens`
    name text collate "C" not null,
    -- when nothing is used any more
    free_at timestamptz not null,
    -- of `tokens`: how many a run of the user takes, the latest ones counting most
    per_run double precision,
    primary key (owner_id, name)
) with (fillfactor = 50);
