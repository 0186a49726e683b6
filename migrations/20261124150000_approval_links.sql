-- Links with which a person decides a question without an API key. A link works while its question is open.
create table houston.approval_links (
    -- SHA-256 of the token in the link; the token is stored nowhere
    token_sha256 bytea primary key,
    question_id uuid not null references houston.questions on delete cascade,
    tenant_id uuid not null,
    -- whom the link was made for
    answered_by text,
    created_at timestamptz not null default clock_timestamp()
);

-- The links of a question.
create index approval_links_by_question on houston.approval_links (question_id);
