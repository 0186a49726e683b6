-- Lists of all users of a tenant, and of all agentables of one kind.
create index users_by_tenant on houston.users (tenant_id, id);
create index agentables_by_tenant_kind on houston.agentables (tenant_id, kind, id);

-- Posts from SQL, in the caller's transaction. As before; a key that was used with another text, or for another
-- agentable, is refused as over HTTP: HO422.
create or replace function houston.post_message(
    agentable uuid, content text, idempotency_key text default null, double_texting text default 'enqueue'
) returns uuid language plpgsql as $$
declare
    v_tenant uuid;
    v_posted record;
begin
    select tenant_id into v_tenant from houston.agentables where id = agentable;
    if content is null or btrim(content) = '' then
        raise exception 'the message is empty' using errcode = 'HO422';
    end if;
    if octet_length(content) > 262144 then
        raise exception 'the message has % bytes, 262144 are allowed', octet_length(content)
              using errcode = 'HO413';
    end if;
    if double_texting is null or double_texting not in ('enqueue', 'interrupt', 'reject', 'rollback') then
        raise exception 'double_texting is %: enqueue, interrupt, reject and rollback are allowed',
              coalesce(quote_literal(double_texting), 'null') using errcode = 'HO422';
    end if;
    if octet_length(idempotency_key) not between 1 and 255 then
        raise exception 'the idempotency key has % bytes, 1 to 255 are allowed', octet_length(idempotency_key)
              using errcode = 'HO422';
    end if;
    select p.message_id, p.key_reused into v_posted
      from houston.post_message(v_tenant, agentable, gen_random_uuid(), gen_random_uuid(), content, null,
                                idempotency_key,
                                sha256(convert_to(agentable || ' ' || double_texting || ' ' || content, 'UTF8')),
                                true, double_texting, 10, 10000) p;
    if v_posted.key_reused then
        raise exception 'the idempotency key % was used before, for another message', quote_literal(idempotency_key)
              using errcode = 'HO422', hint = 'Use another key for another message.';
    end if;
    return v_posted.message_id;
end;
$$;
