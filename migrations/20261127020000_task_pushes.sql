-- Push notifications of A2A: webhooks that a client binds to one task. They are only in the cell of their run, and no webhooks
-- of the tenant: those have no run.
alter table houston.webhooks
    add column run_id uuid,
    -- as the client calls it
    add column push_id text,
    -- as the client calls the thread
    add column context text,
    -- the last event of the run was read: nothing more comes
    add column ended boolean not null default false;

create unique index webhooks_by_run on houston.webhooks (agentable_id, run_id, push_id) where run_id is not null;
