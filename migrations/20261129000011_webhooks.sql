-- Readers of the events of all agentables that must read each one, whatever dies: how far each has read. A row exists while
-- there is something to read for. The process that holds the lock of a row reads; no other waits for it.
create table houston.readers (
    name text primary key,
    -- the text of a `houston_store::event::EventPosition`
    position text not null,
    -- Until when a reader has its turn. What it reads is evaluated without an open transaction, and the turn keeps other processes
    -- from evaluating the same: what keeps them from noting it twice is that the position moves from where it was.
    turn_until timestamptz
);

-- Subscriptions of tenants to events, which are delivered to an address of theirs.
create table houston.webhooks (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants on delete cascade,
    url text not null,
    description text not null,
    -- patterns of topics, such as run.*
    topics text[] not null,
    -- Only events of this user, this kind, this agentable; null: of all. No foreign keys: webhooks are copied to all cells,
    -- users are not.
    user_id uuid,
    kind text,
    agentable_id uuid,
    -- the secret that signs, sealed; and the one before it, which signs, too, until its time
    sealed bytea not null,
    old_sealed bytea,
    old_until timestamptz,
    enabled boolean not null default true,
    -- why it was switched off, unless a person did it
    disabled_because text,
    -- events before this time are not delivered
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- Push notifications of A2A: webhooks that a client binds to one task. They are only in the cell of their run, and no webhooks
    -- of the tenant: those have no run.
    run_id uuid,
    -- as the client calls it
    push_id text,
    -- as the client calls the thread
    context text,
    -- the last event of the run was read: nothing more comes
    ended boolean not null default false
);
create index webhooks_by_tenant on houston.webhooks (tenant_id, id);
-- Those of a user, or of an agentable, that is erased.
create index webhooks_by_user on houston.webhooks (user_id) where user_id is not null;
create index webhooks_by_agentable on houston.webhooks (agentable_id) where agentable_id is not null;
create unique index webhooks_by_run on houston.webhooks (agentable_id, run_id, push_id) where run_id is not null;

-- One event for one webhook. The body is made from the event when it is sent.
create table houston.deliveries (
    id uuid not null,
    tenant_id uuid not null,
    webhook_id uuid not null references houston.webhooks on delete cascade,
    agentable_id uuid not null references houston.agentables on delete cascade,
    seq bigint not null,
    topic text not null,
    state text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
    attempts integer not null default 0,
    -- of the last attempt: the status of the answer, or what went wrong
    status integer,
    error text,
    created_at timestamptz not null,
    attempted_at timestamptz,
    primary key (webhook_id, id),
    -- an event is delivered once, whatever reads it twice
    unique (agentable_id, webhook_id, seq)
);
-- The next delivery of an agentable.
create index deliveries_pending on houston.deliveries (webhook_id, agentable_id, seq) where state = 'pending';
-- Those that are deleted after a time.
create index deliveries_settled on houston.deliveries (attempted_at) where state <> 'pending';
create index deliveries_dead on houston.deliveries (webhook_id, id) where state = 'dead';

-- The agentables with pending deliveries of a webhook: one row each, whose delivery with the lowest position is the next one.
-- So a failed delivery holds back only those of its agentable.
create table houston.open_deliveries (
    webhook_id uuid not null references houston.webhooks on delete cascade,
    agentable_id uuid not null references houston.agentables on delete cascade,
    tenant_id uuid not null,
    -- when the next delivery may be attempted; while one is, when another process may take it for lost
    due_at timestamptz not null,
    -- who attempts it
    claim uuid,
    -- how many processes have ended with the next delivery, before what became of it was stored; below 0: so many are still
    -- claimed one by one, because one before them may not have been what processes ended with
    deaths smallint not null default 0,
    primary key (agentable_id, webhook_id)
);
create index open_deliveries_due on houston.open_deliveries (webhook_id, due_at);

-- Requests to deliver again what happened since a time. A row exists until that is done.
create table houston.replays (
    webhook_id uuid primary key references houston.webhooks on delete cascade,
    tenant_id uuid not null,
    since timestamptz not null,
    until timestamptz not null,
    -- the last agentable that is done, and in the next one the last position
    after_agentable uuid not null,
    after_seq bigint not null
);

-- Addresses at which other programs post messages to an agentable.
create table houston.inbound_hooks (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    name text not null,
    -- what the message says before the text that was received
    instructions text not null,
    sealed bytea not null,
    old_sealed bytea,
    old_until timestamptz,
    created_at timestamptz not null
);
create index inbound_hooks_by_agentable on houston.inbound_hooks (agentable_id, id);

-- What was received: a repeated one posts nothing.
create table houston.inbound_messages (
    hook_id uuid not null,
    -- the id that its sender gave it
    webhook_id text not null,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    message_id uuid not null,
    created_at timestamptz not null,
    primary key (hook_id, webhook_id)
);
create index inbound_messages_by_agentable on houston.inbound_messages (agentable_id);
create index inbound_messages_by_time on houston.inbound_messages (hook_id, created_at);
