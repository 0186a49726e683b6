-- Links with which a person decides a question without an API key. A link works while its question is open.
create table houston.approval_links (
    question_id uuid not null,
    -- SHA-256 of the token in the link; the token is stored nowhere
    token_sha256 bytea not null,
    -- that of the question
    agentable_id uuid not null references houston.agentables on delete cascade,
    tenant_id uuid not null,
    -- whom the link was made for
    answered_by text,
    created_at timestamptz not null default clock_timestamp(),
    primary key (question_id, token_sha256)
);

-- The links of an agentable that is deleted.
create index approval_links_by_agentable on houston.approval_links (agentable_id);
