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
