-- What is erased at somebody's request: users, and agentables with their tasks. From the commit of the request on it
-- belongs to no tenant, which is to say that nobody finds it, and its rows in run_locks are gone: no run, no message and
-- no report finds the lock it needs to write. The workers delete the rest in batches.
alter table houston.users alter column tenant_id drop not null;
alter table houston.agentables alter column tenant_id drop not null;

-- One row per request, kept: who asked, for what, when, how much it was. No content.
create table houston.erasures (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    -- the key of the request
    api_key_id uuid references houston.api_keys,
    -- 'user', or the kind of an agentable
    kind text not null,
    resource_id uuid not null,
    requested_at timestamptz not null default clock_timestamp(),
    completed_at timestamptz,
    -- rows that were deleted, by table
    deleted jsonb not null default '{}',
    -- while it goes on: its agentables, what is next, and up to where that was done
    agentables uuid[] not null default '{}',
    phase text not null default 'requests' check (phase in ('requests', 'rows', 'answers', 'done')),
    after_key text not null default '',
    swept_at timestamptz not null default '-infinity',
    unique (tenant_id, resource_id)
);

create index erasures_by_tenant on houston.erasures (tenant_id, id);
-- Those that go on, the one nobody looked at for longest first.
create index erasures_open on houston.erasures (swept_at) where completed_at is null;

-- What models cost the users who were erased: of each tenant and day (UTC), of whom nobody can tell.
create table houston.erased_spending (
    tenant_id uuid not null references houston.tenants,
    day date not null,
    cost numeric,
    model_calls integer not null,
    unpriced_calls integer not null,
    primary key (tenant_id, day)
);

-- A task is erased that its parent still waits for: the parent is told, as of one that was cancelled. The caller holds
-- the locks of both.
create function houston.report_erased_task(p_task uuid, p_max_running integer) returns void language plpgsql as $$
declare
    a houston.agentables;
    v_id text;
    v_run uuid;
begin
    select g.* into a from houston.agentables g where g.id = p_task;
    select l.run_id into v_run from houston.run_locks l
      left join houston.runs r on r.id = l.run_id
     where l.agentable_id = p_task and (l.run_open or (l.open_tasks > 0 and r.status <> 'cancelled'));
    if not found or a.parent_id is null then
        return;
    end if;
    v_id := houston.shown(a.kind, a.id);
    update houston.run_locks l set open_tasks = greatest(l.open_tasks - 1, 0) where l.agentable_id = a.parent_id;
    perform houston.tell(
        a.parent_id, gen_random_uuid(), gen_random_uuid(),
        format(E'<task_ended id="%s" title="%s" status="cancelled">\n<error>The task was erased.</error>\n</task_ended>',
               v_id, houston.escaped(a.title)),
        jsonb_build_object('type', 'task_ended', 'task_id', v_id, 'status', 'cancelled',
                           'run_id', houston.shown('run', v_run)),
        jsonb_build_object('type', 'task_ended', 'task_id', v_id, 'task_run_id', houston.shown('run', v_run),
                           'title', a.title, 'status', 'cancelled', 'message', 'The task was erased.'),
        null, p_max_running);
end;
$$;
