-- The mark of frames in what an agentable's model is sent: 64 bits that cannot be guessed. It is the same for a whole
-- session (p_session is the position at which the session before it ends), so that the prompt cache of a provider stays
-- valid.
create or replace function houston.frame_mark(p_agentable uuid, p_session bigint) returns text language sql stable as $$
    select left(encode(sha256(i.frame_secret
                              || sha256(i.frame_secret || uuid_send(p_agentable) || int8send(p_session))),
                       'hex'), 16)
      from houston.installation i;
$$;
