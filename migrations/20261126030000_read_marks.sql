-- How far a user has read a thread, on whichever device. What is unread follows from the positions of messages, so that a
-- message that is written changes nothing here. A thread without a row: nothing of it was read.
create table houston.read_marks (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    user_id uuid not null,
    -- messages up to this position of the agentable's event stream were read; it only grows
    seq bigint not null,
    read_at timestamptz not null default clock_timestamp()
);
