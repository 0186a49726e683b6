-- Agentables: anything an agent runs for. `kind` is the name of an agent type in jobs/agents.
create table houston.agentables (
    id uuid primary key,
    -- null: the erasure of this agentable was requested (houston.erasures), so that no query of a tenant finds the row
    tenant_id uuid references houston.tenants,
    user_id uuid not null references houston.users,
    kind text not null,
    title text not null,
    description text not null default '',
    status text,
    -- created together with its user; the agent types say which kinds are (`made_with_user` in jobs/agents)
    made_with_user boolean not null default false,
    -- the agentable this task works for
    parent_id uuid references houston.agentables,
    -- number of agentables above this one. (parent_id, parent_depth) must be an existing agentable that is one step
    -- nearer to the root, so a chain of parents has no cycle.
    depth integer not null default 0 check (depth >= 0),
    parent_depth integer generated always as (case when parent_id is not null then depth - 1 end) stored,
    -- the conversation this one was copied from; null when it is no copy, or the original was deleted
    forked_from uuid references houston.agentables on delete set null,
    -- the agent or the team that answers; with neither, the default agent of the kind
    agent_id uuid references houston.agents,
    team_id uuid references houston.teams,
    -- the tools it may call, out of those of its kind; null: all of them
    tools text[],
    created_at timestamptz not null default now(),
    -- They hold for its tasks, too.
    guards jsonb,
    -- Like the rows marked before: who reads these has read what strangers wrote.
    -- Tasks whose instructions were written after reading it: their runs are marked from the start.
    untrusted boolean not null default false,
    -- What a client of OpenAI says of a conversation (`metadata`): an object of texts; null: nothing was said, or it is no such
    -- client's. Nothing of Houston reads it.
    client_metadata jsonb,
    constraint agentables_id_depth unique (id, depth),
    constraint agentables_depth_of_root check ((parent_id is null) = (depth = 0)),
    constraint agentables_parent_above
        foreign key (parent_id, parent_depth) references houston.agentables (id, depth),
    constraint agentables_served_by_one check (agent_id is null or team_id is null)
);

-- A user's agentables.
create index agentables_by_user on houston.agentables (user_id, id);
-- One agentable per user of each kind that is created with the user, also when several requests create it at once.
create unique index agentables_made_with_user on houston.agentables (user_id, kind) where made_with_user;
-- A user's agentables of one kind, newest first.
create index agentables_by_user_kind on houston.agentables (user_id, kind, id);
-- A tenant's agentables of one kind.
create index agentables_by_tenant_kind on houston.agentables (tenant_id, kind, id);
-- Old tasks, for the health monitor.
create index agentables_by_kind on houston.agentables (kind, created_at);
-- The tasks of an agentable that is deleted.
create index agentables_by_parent on houston.agentables (parent_id) where parent_id is not null;
-- The copies of an agentable that is deleted.
create index agentables_by_origin on houston.agentables (forked_from) where forked_from is not null;
-- The agentables of an agent or a team.
create index agentables_by_agent on houston.agentables (agent_id, id) where agent_id is not null;
create index agentables_by_team on houston.agentables (team_id, id) where team_id is not null;

-- Agentables that still need a title: they were created without one, and their user has written enough to derive one.
-- The transaction that sets the title deletes the row.
create table houston.title_requests (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    -- a worker is generating the title; until due_at no other worker starts
    taken boolean not null default false,
    due_at timestamptz not null
);
create index title_requests_due on houston.title_requests (due_at);

-- What agents have posted to other conversations of their user: one row each, beside the message. Read only by a run that
-- posts: for the limits on what agents wake.
create table houston.agent_messages (
    -- that of the message
    message_id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users on delete cascade,
    -- the run that posted it
    from_run uuid not null,
    -- whose agent reads it
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- how many agents it has passed, its author included
    hops integer not null check (hops > 0),
    created_at timestamptz not null default clock_timestamp()
);

-- How many a run has posted.
create index agent_messages_by_run on houston.agent_messages (from_run);
-- Those of a user within an hour.
create index agent_messages_by_user on houston.agent_messages (user_id, created_at);
-- Those to an agentable that is deleted.
create index agent_messages_by_agentable on houston.agent_messages (agentable_id);
create index agent_messages_by_age on houston.agent_messages (created_at);

-- Conversations that agents have made for their user: one row each, beside the agentable. Read only by a run that makes one:
-- for the limits on how many there may be.
create table houston.made_conversations (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    user_id uuid not null references houston.users on delete cascade,
    -- the run that made it
    from_run uuid not null,
    created_at timestamptz not null default clock_timestamp()
);

-- How many a run has made.
create index made_conversations_by_run on houston.made_conversations (from_run);
-- Those of a user within an hour.
create index made_conversations_by_user on houston.made_conversations (user_id, created_at);
-- Both kinds of rows are deleted by age.
create index made_conversations_by_age on houston.made_conversations (created_at);

-- How far a user has read a thread, on whichever device. What is unread follows from the positions of messages, so that a
-- message that is written changes nothing here. A thread without a row: nothing of it was read.
create table houston.read_marks (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    user_id uuid not null,
    -- messages up to this position of the agentable's event stream were read; it only grows
    seq bigint not null,
    read_at timestamptz not null default clock_timestamp()
);

-- Conversations as clients of other protocols name them: the same user, target and thread id always find the same agentable.
create table houston.client_threads (
    user_id uuid not null,
    -- a kind, or the id of an agent
    target text not null,
    -- what the client calls the conversation
    thread text not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    tenant_id uuid not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (user_id, target, thread)
);

-- The threads of an agentable that is deleted.
create index client_threads_by_agentable on houston.client_threads (agentable_id);

-- What the client of an agentable's latest message with an offer offers the run that answers it: tools that the client carries
-- out, and what it shows its user. See crates/domain/src/client_offer.rs.
create table houston.client_offers (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    message_id uuid not null,
    offer jsonb not null,
    -- What messages are about (crates/domain/src/focus.rs). The focus of a message is part of its offer.
    -- The focus that the last run with one had, so that a run whose focus is another can say so.
    last_focus jsonb
);

-- The document that an agentable shares with front ends, if its kind declares one (crates/domain/src/shared_state.rs): a row for
-- each position of its event stream at which it was changed; the newest is the state. A stream that begins at any position
-- finds the state there. Without a row it is what the kind's file says.
create table houston.shared_states (
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- that of the event; 0: before the first run
    seq bigint not null,
    tenant_id uuid not null,
    state jsonb not null,
    -- of a state that a client sent with a run: the client's own id of that run
    given_with text,
    primary key (agentable_id, seq)
);
