-- The latest tick of each periodic job. The process that increases it runs the job. One row per job, so ticks do not
-- pile up, and the database's clock decides which tick it is.
create table houston.cron_ticks (
    job text primary key,
    tick timestamptz not null
);

-- The latest result of each check of the health monitor.
create table houston.health_checks (
    id text primary key,
    status text not null check (status in ('ok', 'warn', 'red')),
    detail text not null,
    -- since when it has this status
    since timestamptz not null,
    checked_at timestamptz not null,
    -- from then on the result is outdated
    stale_at timestamptz not null
);

-- Erasures of users, and of agentables with their tasks. When a request is committed, its rows have no tenant any more,
-- so no query of a tenant finds them, and their rows in houston.run_locks are deleted, so no run, message or report can
-- take the lock that it needs to write. The workers delete the rest in batches.
-- One row per request, which is kept. It contains no erased content.
create table houston.erasures (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    -- the API key of the request; null: a client token, which was deleted when it had expired
    api_key_id uuid references houston.api_keys on delete set null,
    -- 'user', or the kind of an agentable
    kind text not null,
    resource_id uuid not null,
    requested_at timestamptz not null default clock_timestamp(),
    completed_at timestamptz,
    -- number of deleted rows, by table
    deleted jsonb not null default '{}',
    -- progress: the agentables to erase, the current phase, and the key up to which it is done
    agentables uuid[] not null default '{}',
    phase text not null default 'requests' check (phase in ('requests', 'rows', 'answers', 'done')),
    after_key text not null default '',
    swept_at timestamptz not null default '-infinity',
    unique (tenant_id, resource_id)
);
create index erasures_by_tenant on houston.erasures (tenant_id, id);
-- Unfinished erasures; the one that was continued the longest time ago comes first.
create index erasures_open on houston.erasures (swept_at) where completed_at is null;
create index erasures_by_shard on houston.erasures (right(id::text, 4));

-- Who changed what through the API or by a command of an operator. Ids only, no content; what the traffic of applications writes
-- (messages, conversations with their users) is data and not recorded here. The health monitor deletes old rows.
create table houston.audit (
    -- by time
    id uuid primary key,
    -- all zeros: it was done to the whole installation
    tenant_id uuid not null,
    at timestamptz not null default clock_timestamp(),
    -- `key_…`, or the command with the login of the machine
    actor text not null,
    -- the user whom the key or the token is bound to: `user_…`
    on_behalf_of text,
    -- as in the OpenAPI document, or the name of the command
    operation text not null,
    -- the id or the name in the path; null: a list, or what the body names
    target text,
    -- of the answer; 0: a command
    status smallint not null,
    -- of the problem, if it was refused
    code text,
    request_id text
);
create index audit_by_tenant on houston.audit (tenant_id, id);
-- The health monitor deletes the oldest rows.
create index audit_by_age on houston.audit (at);

-- How far the walk over the ended runs is, for each thing that is deleted and each kind of agentable. It goes by the time of their end
-- (runs_ended), so an installation that keeps everything pays nothing for it, and a run no mark.
create table houston.retention_walks (
    -- events, history or model_calls
    what text not null,
    kind text not null,
    -- the last run that the walk has passed
    ended_at timestamptz not null,
    run_id uuid not null,
    -- the last transaction that wrote what is deleted: a stream of all events does not resume from before it
    xid bigint,
    -- when the walk began: what it had to pass is found when it begins again
    began_at timestamptz not null,
    primary key (what, kind)
);

-- Shards whose users were moved to another cell. The cell that gave them away and the one that got them have the same row, so
-- that one of the two is enough to know it. Empty unless users were moved.
create table houston.moved_shards (
    -- of several moves of a shard the one with the highest version counts
    version bigint not null,
    -- the first and the last shard
    first integer not null check (first between 0 and 65535),
    last integer not null check (last between first and 65535),
    -- the cell that has them now: its shards in the settings, as `8000-ffff`
    cell text not null,
    moved_at timestamptz not null default clock_timestamp(),
    -- Whether the shards of a move came to this cell, or left it. In a cell that they left, no user is created with them, not even
    -- by a process that does not know the move yet.
    is_here boolean not null default false,
    -- The transaction of this cell in which the shards of a move came to it: readers of events who were in the other cell go on here
    -- with what it wrote. Null: they left, or came before this column was there.
    xid bigint,
    primary key (version, first)
);

-- When checks of the health monitor changed their status. Written only then; of each check the newest are kept (see
-- `store::health::check`), so the table stays small whatever happens.
create table houston.health_changes (
    -- as in health_checks
    check_id text not null,
    at timestamptz not null,
    status text not null check (status in ('ok', 'warn', 'red')),
    detail text not null,
    primary key (check_id, at)
);
