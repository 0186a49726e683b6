-- What is deleted by age ([retention] in jobs/health_monitor.toml), and how far that is.

-- The events of an agentable below this position were deleted; null: none were. Set under the row's lock, together with the first
-- deletion, so that no reader takes what is left for the whole. What follows from messages and runs stays, see houston.events.
alter table houston.run_locks add column events_from bigint;

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
