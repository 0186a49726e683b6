-- The cost of model calls, in US dollars; null is an unknown cost. Sums contain the known costs, and have the number of
-- calls without a price beside them.
create table houston.model_calls (
    run_id uuid not null,
    -- the step that committed the answer; a call whose step was not committed has no row
    write_id uuid not null,
    tenant_id uuid not null,
    agentable_id uuid not null,
    iteration integer not null,
    provider text not null,
    model text not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cache_read_tokens bigint not null,
    cache_write_tokens bigint not null,
    reasoning_tokens bigint not null,
    cost numeric,
    -- the provider reported the cost itself
    reported boolean not null,
    created_at timestamptz not null,
    -- How fast models answer: from the request to the first event, and to the end; null where nothing was measured.
    first_event_ms integer,
    took_ms integer,
    -- Model calls that were cut off before their provider reported what they used: their tokens are estimated, from the request
    -- and from what was received.
    estimated boolean not null default false,
    primary key (run_id, write_id)
);

-- Calls of the last minutes. Rows are only appended, so a summary of each range of pages finds them and costs a call
-- nothing.
create index model_calls_by_time on houston.model_calls using brin (created_at)
    with (pages_per_range = 16, autosummarize = on);

-- What each user spent on each day (UTC). A user's total is the sum of these rows: a total in houston.users would
-- change a row that every post of the user reads. Each connection adds to a row of its own, so that no step of the user
-- waits until another one is flushed to disk.
create table houston.spending (
    user_id uuid not null,
    day date not null,
    tenant_id uuid not null,
    cost numeric,
    model_calls integer not null,
    unpriced_calls integer not null,
    -- the process of Postgres that serves the connection
    writer integer not null default pg_backend_pid(),
    primary key (user_id, day, writer)
) with (fillfactor = 50);

-- Cost of the model calls of erased users, by tenant and day (UTC), so that a tenant's totals stay correct.
create table houston.erased_spending (
    tenant_id uuid not null references houston.tenants,
    day date not null,
    cost numeric,
    model_calls integer not null,
    unpriced_calls integer not null,
    primary key (tenant_id, day)
);
