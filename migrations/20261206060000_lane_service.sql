-- When lanes that had been paused were resumed. What waits in one gets its time from then on.
create table houston.resumed_lanes (
    lane text primary key,
    resumed_at timestamptz not null
);

-- Since when a worker has lived without a gap in its lease, if there was one: it may have slept, or not have reached Postgres.
alter table houston.workers add column served_since timestamptz;
