-- What messages are about (crates/domain/src/focus.rs). The focus of a message is part of its offer.

-- The focus that the last run with one had, so that a run whose focus is another can say so.
alter table houston.client_offers add column last_focus jsonb;

-- What providers have answered about a focus, for a few minutes.
create table houston.context_cache (
    tenant_id uuid not null,
    user_id uuid not null references houston.users on delete cascade,
    type text not null,
    id text not null,
    tool text not null,
    -- Null: no answer yet, or it is void.
    answer text,
    fetched_at timestamptz,
    -- One process asks the provider anew, until then.
    refreshing_until timestamptz,
    -- An answer that was asked for before is void: a tool has written the thing.
    voided_at timestamptz,
    primary key (user_id, type, id, tool)
);
