-- Issuers of JWTs: keys without a secret of their own. A request has a token that the issuer signed for one user.
alter table houston.api_keys
    -- {"issuer", "jwks_url", "audience", "user_claim"}; null: an ordinary key
    add column issuer jsonb,
    add constraint api_keys_issuers check (
        issuer is null or (user_id is null and agentables is null and parent_id is null and scopes <@ '{read,post}'));

-- A token belongs to one tenant, by its issuer and its audience.
create unique index api_keys_by_issuer on houston.api_keys ((issuer ->> 'issuer'), (issuer ->> 'audience'))
    where issuer is not null and revoked_at is null;
