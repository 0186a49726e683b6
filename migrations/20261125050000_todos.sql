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
