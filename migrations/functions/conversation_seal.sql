-- The seal of an exported conversation: it shows that this installation wrote a document of the tenant with this digest. It is
-- keyed twice, so that nobody can append to what is hashed.
create or replace function houston.conversation_seal(p_tenant uuid, p_digest bytea) returns text language sql stable as $$
    select encode(sha256(i.frame_secret
                         || sha256(i.frame_secret || convert_to('conversation', 'UTF8') || uuid_send(p_tenant) || p_digest)),
                  'hex')
      from houston.installation i;
$$;
