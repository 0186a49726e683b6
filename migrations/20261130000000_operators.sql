-- What operators see of a worker process, and how they ask it to stop. A worker of an older release leaves these columns empty,
-- and does not read when it is asked.
alter table houston.workers
    add column host text,
    add column pid integer,
    add column version text,
    -- runs that it drives at once, and how many of them may be of the background
    add column slots integer,
    add column background_slots integer,
    -- when an operator asked it to drain
    add column drain_requested_at timestamptz,
    -- since when it claims nothing new
    add column draining_since timestamptz;

-- The runs of a tenant that failed, newest first. Runs that do not fail are in no index of a tenant: a list of all runs goes through
-- the primary key, which is by time.
create index runs_failed on houston.runs (tenant_id, id) where status in ('failed', 'dead_lettered');
