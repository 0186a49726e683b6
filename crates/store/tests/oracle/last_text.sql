-- The last text that the agent of a run wrote at position p_from or later; null when it wrote none.
create or replace function houston.last_text(p_agentable uuid, p_run uuid, p_from bigint) returns text
language sql stable as $$
    select said.text
      from houston.history h
     cross join lateral (
           select string_agg(b.block ->> 'text', E'\n' order by b.n) as text
             from jsonb_array_elements(h.content) with ordinality as b (block, n)
            where b.block ->> 'type' = 'text') as said
     where h.agentable_id = p_agentable and h.position >= p_from and h.run_id = p_run and h.role = 'assistant'
       and btrim(said.text) <> ''
     order by h.position desc limit 1;
$$;
