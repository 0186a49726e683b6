-- The frame that lists the tasks that were cancelled together with a run.
create or replace function houston.tasks_cancelled(p_titles text[]) returns text language sql immutable as $$
    select '<tasks_cancelled>' || E'\n'
           || string_agg('<item>' || houston.escaped(t.title) || '</item>', E'\n' order by t.n)
           || E'\n</tasks_cancelled>'
      from unnest(p_titles) with ordinality as t (title, n);
$$;
