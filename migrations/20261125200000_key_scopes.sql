-- What an API key may do, for whom and for how long; and client tokens, which keys make for browsers and phones.
alter table houston.api_keys
    -- names of scopes: read, post, manage_agents, operate, admin
    add column scopes text[] not null default '{admin}',
    -- The only user that the key reads and writes for; null: all users of the tenant. No foreign key: keys are copied to
    -- all cells, users are not.
    add column user_id uuid,
    -- the only agentables of that user; null: all
    add column agentables uuid[],
    add column expires_at timestamptz,
    -- at most a minute old
    add column last_used_at timestamptz,
    -- of a client token: the key that made it, and without which it is not valid
    add column parent_id uuid references houston.api_keys on delete cascade,
    add constraint api_keys_of_user check (agentables is null or user_id is not null),
    add constraint api_keys_client_tokens check (parent_id is null or (user_id is not null and expires_at is not null));

-- Client tokens are deleted when they have expired; erasures that they requested stay listed.
alter table houston.erasures
    drop constraint erasures_api_key_id_fkey,
    add constraint erasures_api_key_id_fkey foreign key (api_key_id) references houston.api_keys on delete set null;

-- The keys of a user who is erased.
create index api_keys_by_user on houston.api_keys (user_id) where user_id is not null;
-- The client tokens of a key: those that have expired are deleted when it makes another.
create index api_keys_by_parent on houston.api_keys (parent_id, expires_at) where parent_id is not null;
