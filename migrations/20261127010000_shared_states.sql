-- The document that an agentable shares with front ends, if its kind declares one (crates/domain/src/shared_state.rs): a row for
-- each position of its event stream at which it was changed; the newest is the state. A stream that begins at any position
-- finds the state there. Without a row it is what the kind's file says.
create table houston.shared_states (
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- that of the event; 0: before the first run
    seq bigint not null,
    tenant_id uuid not null,
    state jsonb not null,
    -- of a state that a client sent with a run: the client's own id of that run
    given_with text,
    primary key (agentable_id, seq)
);
