-- What the client of an agentable's latest message with an offer offers the run that answers it: tools that the client carries
-- out, and what it shows its user. See crates/domain/src/client_offer.rs.
create table houston.client_offers (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    message_id uuid not null,
    offer jsonb not null
);
