-- What agents know: of one agentable (notes, learnings), or of a user and shared by all their agents (profile, custom
-- instructions, memories).

-- houston.likeness compares words by trigrams. If the database has the extension already, its schema is not changed.
create extension if not exists pg_trgm with schema houston;

create table houston.notes (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables,
    -- the run that wrote it; null: it was written over the API
    run_id uuid,
    title text not null,
    content text not null,
    search tsvector generated always as (to_tsvector('simple', title || ' ' || content)) stored,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create index notes_by_agentable on houston.notes (agentable_id, id);

-- What an agent learnt about its user or its aim.
create table houston.learnings (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables,
    content text not null,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create index learnings_by_agentable on houston.learnings (agentable_id, id);

create table houston.profiles (
    user_id uuid primary key references houston.users,
    tenant_id uuid not null,
    facts text[] not null default '{}',
    preferences text[] not null default '{}',
    communication_style text[] not null default '{}',
    interests text[] not null default '{}',
    aims text[] not null default '{}',
    updated_at timestamptz not null default clock_timestamp()
);

-- The user's rules, which all their agents follow. Only the API writes them and never an agent: a web page that an
-- agent reads must not be able to add a rule.
create table houston.custom_instructions (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    content text not null,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create index custom_instructions_by_user on houston.custom_instructions (user_id, id);

-- What agents remember of a user. A search reads all memories of one user, which are a thousand at most: an index over
-- the words of all users would find more rows of other users than of this one.
create table houston.memories (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    -- the run that saved it; null: it was written over the API
    run_id uuid,
    content text not null,
    search tsvector not null generated always as (to_tsvector('simple', content)) stored,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create index memories_by_user on houston.memories (user_id, id);
