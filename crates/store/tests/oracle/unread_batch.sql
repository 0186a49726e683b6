-- The unread messages that are read at once: those after p_after, up to p_up_to if given, in order, at most p_messages
-- and p_bytes bytes, unless the first one alone is longer. The rest is left for the next read.
--
-- read_to: the position of the last one, null when there is none. blocks: the messages as blocks of the history.
-- more: whether there are more. elsewhere: whether some were posted for another run than p_run.
create or replace function houston.unread_batch(
    p_agentable uuid, p_after bigint, p_up_to bigint, p_run uuid, p_messages integer, p_bytes integer,
    out read_to bigint, out blocks jsonb[], out more boolean, out elsewhere boolean
) language plpgsql stable as $$
declare
    m record;
    v_bytes bigint := 0;
begin
    more := false;
    elsewhere := false;
    for m in
        select n.seq, n.source, n.metadata, n.content, n.run_id from houston.messages n
         where n.agentable_id = p_agentable and houston.is_for_agent(n.source) and n.seq > p_after
           and n.seq <= coalesce(p_up_to, 9223372036854775807)
         order by n.seq limit p_messages + 1
    loop
        v_bytes := v_bytes + octet_length(m.content);
        if read_to is not null and (v_bytes > p_bytes or cardinality(blocks) >= p_messages) then
            more := true;
            return;
        end if;
        read_to := m.seq;
        blocks := blocks || houston.message_block(m.source, m.metadata, m.content);
        elsewhere := elsewhere or m.run_id <> p_run;
    end loop;
end;
$$;
