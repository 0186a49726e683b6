-- What the user wrote, shortened, of a stretch of the history. What Houston itself said there (a feed is due, a check-in,
-- a task has ended: see mode and tasks) is no word of theirs.
create or replace function houston.session_extract(p_agentable uuid, p_after bigint, p_last bigint) returns text
language sql stable as $$
    select coalesce('The user wrote: ' || string_agg(said.text, ' / ' order by said.position, said.n),
                    'The user wrote nothing.')
      from (select h.position, b.n, left(btrim(regexp_replace(b.block->>'text', '\s+', ' ', 'g')), 200) as text
              from (select e.position, e.role, e.content from houston.history e
                     where e.agentable_id = p_agentable and e.position > p_after and e.position <= p_last
                       and not e.rolled_back
                     order by e.position limit 40) h
             cross join lateral jsonb_array_elements(h.content) with ordinality as b (block, n)
             where h.role = 'user' and b.block->>'type' = 'text' and btrim(b.block->>'text') <> ''
               and b.block->>'text' !~ '^<(feed_generation|agent_check_in|task_ended)[ />]'
             order by h.position, b.n limit 5) said;
$$;
