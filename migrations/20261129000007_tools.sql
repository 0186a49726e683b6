-- Calls of tools that act outside these tables. The row is committed before the call starts (the intent) and gets the
-- response when the call has returned.
create table houston.tool_calls (
    run_id uuid not null,
    call_id text not null,
    agentable_id uuid not null,
    tenant_id uuid not null,
    epoch bigint not null,
    name text not null,
    effect text not null,
    message_id uuid not null,
    response jsonb,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    -- A tool call that has begun and goes on later: what its tool needs for that, and what it waits for, as JSON. Text, because
    -- jsonb has no U+0000, and a server gets back what it sent, byte for byte.
    paused text,
    primary key (run_id, call_id)
);

-- Large results: the history contains the beginning and the id, and the tool `read_result` reads the rest. A copy of a
-- conversation keeps the ids that its texts name, so an id is unique per agentable only.
create table houston.tool_results (
    id uuid not null,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- the agentable that this one works for: it may read the results of its tasks
    parent_id uuid,
    run_id uuid not null,
    call_id text not null,
    tool text not null,
    content text not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (agentable_id, id)
);
create index tool_results_by_parent on houston.tool_results (parent_id, id) where parent_id is not null;

-- Questions that runs ask people. A row is written with the step that asks, and closed once, under the lock of its
-- agentable (houston.run_locks), which is taken first.
create table houston.questions (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    run_id uuid not null,
    kind text not null check (kind in ('approval', 'input', 'budget')),
    -- what it is about, in the words of who asks: the id of a tool call, the path of a step
    subject text,
    text text not null,
    -- the JSON Schema of an answer; null: any JSON value
    schema jsonb,
    -- the answer that holds if no answer comes in time
    default_value jsonb,
    expires_at timestamptz,
    state text not null default 'open' check (state in ('open', 'answered', 'expired', 'superseded', 'cancelled')),
    answer jsonb,
    answered_by text,
    created_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    -- The tool call that an approval is about: {"tool", "input", "why", "message_id"}; null for other questions.
    approval jsonb,
    check ((state = 'open') = (closed_at is null))
);

-- The questions of an agentable and of its runs.
create index questions_by_agentable on houston.questions (agentable_id, id);
-- The open questions of a tenant and of a user.
create index questions_open on houston.questions (tenant_id, id) where state = 'open';
create index questions_open_by_user on houston.questions (user_id, id) where state = 'open';
-- Open questions that expire.
create index questions_expiring on houston.questions (expires_at) where state = 'open' and expires_at is not null;

-- The lasting yes of people: calls that they cover are not asked about again. Written with the answer that gives one, read
-- by a run only when it would ask.
create table houston.grants (
    -- that of the question that was answered
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users on delete cascade,
    -- null: it holds for all of the user's agentables
    agentable_id uuid references houston.agentables on delete cascade,
    -- the name of the tool
    tool text not null,
    -- JSON pointers into the arguments, and what they must be
    conditions jsonb not null default '{}',
    -- the pin of the tool's definition at that time; the grant is void for a tool with another one
    pin text,
    granted_by text,
    created_at timestamptz not null default clock_timestamp()
);

-- The grants of a user.
create index grants_by_user on houston.grants (user_id, id);
-- The grants of an agentable that is deleted.
create index grants_by_agentable on houston.grants (agentable_id) where agentable_id is not null;

-- Links with which a person decides a question without an API key. A link works while its question is open.
create table houston.approval_links (
    question_id uuid not null,
    -- SHA-256 of the token in the link; the token is stored nowhere
    token_sha256 bytea not null,
    -- that of the question
    agentable_id uuid not null references houston.agentables on delete cascade,
    tenant_id uuid not null,
    -- whom the link was made for
    answered_by text,
    created_at timestamptz not null default clock_timestamp(),
    primary key (question_id, token_sha256)
);

-- The links of an agentable that is deleted.
create index approval_links_by_agentable on houston.approval_links (agentable_id);

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

-- MCP servers over HTTP of tenants, for all their users, and of users. Requests write them; runs read a summary with the row of
-- their tenant or user, and a server only when their process has not set it up yet.
create table houston.mcp_servers (
    -- the user, or else the tenant
    owner_id uuid not null,
    -- `crates/domain/src/mcp_server.rs` says what a name is
    name text collate "C" not null,
    tenant_id uuid not null references houston.tenants on delete cascade,
    user_id uuid references houston.users on delete cascade,
    url text not null,
    -- kinds, time limit, which tools, what is said of single tools
    settings jsonb not null,
    -- the names of its headers
    header_names text[] not null,
    -- an object of its headers, sealed; null: it has none
    sealed bytea,
    -- the approved tools: an object of their definitions, by the names that the server gives them
    pins jsonb not null default '{}',
    -- the names under which tools are offered
    tools text[] not null default '{}',
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (owner_id, name),
    check (owner_id = coalesce(user_id, tenant_id))
);

-- Servers of a tenant or user that is deleted.
create index mcp_servers_by_tenant on houston.mcp_servers (tenant_id);
create index mcp_servers_by_user on houston.mcp_servers (user_id) where user_id is not null;

-- Accounts of tenants and users at MCP servers that use OAuth: what a login has given, sealed. A process reads one when it calls
-- such a server, and not before.
create table houston.mcp_accounts (
    -- the user who has logged in, or else the tenant
    account_id uuid not null,
    -- the owner of the server, and its name; the server of a tenant is a row of every cell, so this is no foreign key
    owner_id uuid not null,
    server text collate "C" not null,
    tenant_id uuid not null references houston.tenants on delete cascade,
    user_id uuid references houston.users on delete cascade,
    -- the address that the login was for: another one gets nothing of it
    url text not null,
    -- null: the authorization server has refused to renew it
    sealed bytea,
    -- counts what was stored here
    version bigint not null default 1,
    -- who renews it, and until when no other process does: a refresh token may be used once
    renewing bigint,
    renewing_until timestamptz,
    updated_at timestamptz not null default clock_timestamp(),
    primary key (account_id, owner_id, server),
    check (account_id = coalesce(user_id, tenant_id))
);
create index mcp_accounts_by_tenant on houston.mcp_accounts (tenant_id);
create index mcp_accounts_by_user on houston.mcp_accounts (user_id) where user_id is not null;
create index mcp_accounts_by_owner on houston.mcp_accounts (owner_id);

-- Logins that have begun: one of each account, for ten minutes.
create table houston.mcp_logins (
    account_id uuid not null,
    owner_id uuid not null,
    server text collate "C" not null,
    tenant_id uuid not null references houston.tenants on delete cascade,
    user_id uuid references houston.users on delete cascade,
    url text not null,
    -- of the `state` that the browser brings back
    state_sha256 bytea not null,
    sealed bytea not null,
    expires_at timestamptz not null,
    primary key (account_id, owner_id, server),
    check (account_id = coalesce(user_id, tenant_id))
);
create unique index mcp_logins_by_state on houston.mcp_logins (state_sha256);
create index mcp_logins_by_tenant on houston.mcp_logins (tenant_id);
create index mcp_logins_by_user on houston.mcp_logins (user_id) where user_id is not null;
create index mcp_logins_by_owner on houston.mcp_logins (owner_id);
