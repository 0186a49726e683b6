-- Texts of an agentable or a user, one row each. What differs between the kinds is in `crates/domain/src/knowledge.rs`.
-- Custom instructions are the user's rules, which all their agents follow. Only the API writes them and never an agent:
-- a web page that an agent reads must not be able to add a rule.
create table houston.knowledge_items (
    id uuid primary key,
    tenant_id uuid not null,
    -- note, learning, memory, custom_instruction, feed_item
    kind text not null,
    -- the owner: one of the two
    agentable_id uuid references houston.agentables,
    user_id uuid references houston.users,
    owner_id uuid not null generated always as (coalesce(agentable_id, user_id)) stored,
    -- the agentable that wrote a feed item; null: it was written over the API, or the agentable was deleted
    author_id uuid references houston.agentables on delete set null,
    -- the run that wrote it; null: it was written over the API
    run_id uuid,
    title text,
    content text not null,
    -- A search reads all items of one owner and kind, which are ten thousand at most: an index over the words of all
    -- users would find more rows of other users than of this one.
    search tsvector not null generated always as (
        to_tsvector('simple', case when kind = 'feed_item' then title else coalesce(title || ' ', '') || content end)
    ) stored,
    -- when the user read a feed item
    read_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    untrusted boolean not null default false,
    check (num_nonnulls(agentable_id, user_id) = 1)
);

-- A run reads the items of one kind by this index: their number does not depend on the other kinds.
create index knowledge_by_owner on houston.knowledge_items (owner_id, kind, id);
-- For agentables and users that are deleted.
create index knowledge_by_agentable on houston.knowledge_items (agentable_id) where agentable_id is not null;
create index knowledge_by_user on houston.knowledge_items (user_id) where user_id is not null;
create index knowledge_by_author on houston.knowledge_items (author_id) where author_id is not null;
-- A run asks whether what its prompt shows was written like that.
create index knowledge_untrusted on houston.knowledge_items (owner_id, kind) where untrusted;

create table houston.profiles (
    user_id uuid primary key references houston.users,
    tenant_id uuid not null,
    facts text[] not null default '{}',
    preferences text[] not null default '{}',
    communication_style text[] not null default '{}',
    interests text[] not null default '{}',
    aims text[] not null default '{}',
    updated_at timestamptz not null default clock_timestamp(),
    -- Entries of a profile that a session wrote after it had read what strangers wrote. The marks are kept with the entries, as their
    -- texts: an entry that is removed takes its mark with it.
    untrusted text[] not null default '{}'
);

-- Skills of tenants, for all their users, and of users: instructions that agents read when a message calls for them. Requests
-- and operators write them; runs read them.
create table houston.skills (
    -- the user, or else the tenant
    owner_id uuid not null,
    -- `crates/domain/src/skill.rs` says what a name is
    name text collate "C" not null,
    tenant_id uuid not null references houston.tenants on delete cascade,
    user_id uuid references houston.users on delete cascade,
    -- SKILL.md as it was given
    text text not null,
    -- what every run reads: name, brief, triggers, enabled
    summary jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (owner_id, name),
    check (owner_id = coalesce(user_id, tenant_id))
);

-- Skills of a tenant or user that is deleted.
create index skills_by_tenant on houston.skills (tenant_id);
create index skills_by_user on houston.skills (user_id) where user_id is not null;

-- Files beside a SKILL.md.
create table houston.skill_files (
    owner_id uuid not null,
    skill text collate "C" not null,
    -- one level below scripts/, references/ or assets/
    path text collate "C" not null,
    tenant_id uuid not null,
    content text not null,
    primary key (owner_id, skill, path),
    foreign key (owner_id, skill) references houston.skills (owner_id, name) on delete cascade
);

-- Code that agents keep for a user. Runs write it in the transactions of their steps.
create table houston.snippets (
    user_id uuid not null references houston.users on delete cascade,
    -- Compared byte by byte, so that the order does not depend on the locale.
    name text collate "C" not null,
    tenant_id uuid not null,
    -- javascript or typescript
    language text not null,
    description text not null,
    code text not null,
    -- Whether the session that wrote it had read what strangers wrote.
    untrusted boolean not null,
    -- Of a snippet that a person let become a tool: the JSON schema of its arguments, and the hash of all that the person
    -- saw. Null as soon as something of it changes.
    input_schema jsonb,
    pin text,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (user_id, name)
);

-- The tools of a user: each of their runs asks for them, and most users have none.
create index snippets_tools on houston.snippets (user_id, name) where pin is not null;

-- Todos of users: what they want to get done. All agents of a user see the same ones.
create table houston.todos (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    -- the agentable whose agent wrote it; null: it was written over the API, or the agentable was deleted
    agentable_id uuid references houston.agentables on delete set null,
    -- the name of its list; empty: no list
    list text not null default '',
    title text not null,
    details text not null default '',
    -- 0 low, 1 normal, 2 high
    priority smallint not null default 1,
    -- the local day or time, its time zone, and from when on it is overdue; all three or none
    due text,
    time_zone text,
    due_at timestamptz,
    -- the order in which they are listed: a new one comes last
    position double precision not null,
    done_at timestamptz,
    -- whether a session wrote it that had read what strangers wrote
    untrusted boolean not null default false,
    created_at timestamptz not null,
    updated_at timestamptz not null
);

-- A list reads the todos of one user, of which there are a thousand at most.
create index todos_by_user on houston.todos (user_id, position, id);
-- The todos of an agentable that is deleted.
create index todos_by_agentable on houston.todos (agentable_id) where agentable_id is not null;

-- Custom tables of users and their records. What a record may have is in the fields of its table: `Fields` of
-- `crates/domain/src/custom_table` checks what is written.
create table houston.custom_tables (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    name text not null,
    description text not null,
    -- a list of fields; it does not change, so a record that was checked stays right
    fields jsonb not null,
    -- of all records: their number, and their bytes as JSON
    records integer not null default 0,
    bytes bigint not null default 0,
    -- whether a session made it that had read what strangers wrote
    untrusted boolean not null default false,
    created_at timestamptz not null,
    unique (user_id, name)
);

create table houston.custom_records (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    -- houston.custom_tables; what deletes a table deletes its records
    table_id uuid not null,
    data jsonb not null,
    bytes integer not null,
    -- whether a session wrote it that had read what strangers wrote
    untrusted boolean not null default false,
    created_at timestamptz not null,
    updated_at timestamptz not null
);

-- A search reads the records of one table, and nothing else.
create index custom_records_by_table on houston.custom_records (user_id, table_id, id);

-- What providers have answered about a focus, for a few minutes.
create table houston.context_cache (
    tenant_id uuid not null,
    user_id uuid not null references houston.users on delete cascade,
    type text not null,
    id text not null,
    tool text not null,
    -- Null: no answer yet, or it is void.
    answer text,
    fetched_at timestamptz,
    -- One process asks the provider anew, until then.
    refreshing_until timestamptz,
    -- An answer that was asked for before is void: a tool has written the thing.
    voided_at timestamptz,
    primary key (user_id, type, id, tool)
);

-- Answers about focuses that are too old to be shown are deleted, the oldest first.
create index context_cache_old on houston.context_cache (greatest(fetched_at, voided_at, refreshing_until));
