-- The lanes of which no worker claims anything new, because an operator has paused them: few rows, if any.
create table houston.paused_lanes (
    lane text primary key,
    paused_at timestamptz not null default clock_timestamp()
);
