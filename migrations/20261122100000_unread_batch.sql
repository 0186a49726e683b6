-- The messages one read takes, of those nobody has read after p_after, up to p_up_to if given: in order, p_messages
-- at most, p_bytes at most unless the first alone is longer. The rest is for the next read.
--
-- read_to: the position of the last one, null when there is none. more: whether others wait behind it.
-- elsewhere: whether some of them were posted for another run than p_run.
create function houston.unread_batch(
    p_agentable uuid, p_after bigint, p_up_to bigint, p_run uuid, p_messages integer, p_bytes integer
) returns table (read_to bigint, contents text[], more boolean, elsewhere boolean)
language sql stable as $$
    with waiting as (
        select m.seq, m.content, m.run_id, row_number() over (order by m.seq) as nth,
               sum(octet_length(m.content)) over (order by m.seq) as bytes
          from (select seq, content, run_id from houston.messages
                 where agentable_id = p_agentable and source = 'user' and seq > p_after
                   and seq <= coalesce(p_up_to, 9223372036854775807)
                 order by seq limit p_messages + 1) m)
    select max(w.seq) filter (where w.taken), array_agg(w.content order by w.seq) filter (where w.taken),
           count(*) > count(*) filter (where w.taken),
           coalesce(bool_or(w.run_id <> p_run) filter (where w.taken), false)
      from (select *, nth = 1 or (nth <= p_messages and bytes <= p_bytes) as taken from waiting) w;
$$;
