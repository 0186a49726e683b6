-- The beginning of what the user wrote in a stretch of the history, shortened; used until a model has written a
-- summary. Only the first entries are read, however many there are. Frames are skipped, because Houston wrote them.
create or replace function houston.session_extract(p_agentable uuid, p_after bigint, p_last bigint) returns text
language sql stable as $$
    select coalesce('The user wrote: ' || array_to_string((array_agg(
               left(btrim(regexp_replace(b.block->>'text', '\s+', ' ', 'g')), houston.setting('session.extract_chars'))
               order by h.position, b.n))[:houston.setting('session.extract_texts')], ' / '), 'The user wrote nothing.')
      from (select e.position, e.role, e.content from houston.entries e
             where e.agentable_id = p_agentable and e.position > p_after and e.position <= p_last and not e.rolled_back
             order by e.position limit houston.setting('session.extract_entries')) h
     cross join lateral jsonb_array_elements(h.content) with ordinality as b (block, n)
     where h.role = 'user' and b.block->>'type' = 'text' and btrim(b.block->>'text') <> '' and not b.block ? 'frame';
$$;
