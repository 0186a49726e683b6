-- The beginning of what the user wrote, until a model has summarised it: of the first entries, without frames.
create or replace function houston.session_extract(p_agentable uuid, p_after bigint, p_last bigint) returns text
language sql stable as $$
    select coalesce('The user wrote: ' || string_agg(left(btrim(regexp_replace(s.text, '\s+', ' ', 'g')),
               houston.setting('session.extract_chars')), ' / ' order by s.position, s.n), 'The user wrote nothing.')
      from (select h.position, b.n, b.block->>'text' as text
              from (select e.position, e.role, e.content from houston.entries e
                     where e.agentable_id = p_agentable and e.position > p_after and e.position <= p_last
                       and not e.rolled_back order by e.position limit houston.setting('session.extract_entries')) h
             cross join lateral jsonb_array_elements(h.content) with ordinality as b (block, n)
             where h.role = 'user' and b.block->>'type' = 'text' and btrim(b.block->>'text') <> ''
               and not b.block ? 'frame' order by h.position, b.n limit houston.setting('session.extract_texts')) s;
$$;
