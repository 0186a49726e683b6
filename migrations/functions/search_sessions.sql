-- The closed sessions of an agentable that match a query best, at most p_limit, the best first; of equally good ones,
-- the newest first. Only sessions that overlap the time from p_since to p_until, if given.
--
-- First come sessions with all words of the query, then those with all but the shortest, and so on; finally those with
-- a word similar to the longest. A word that is in most sessions is found among the newest sixty without reading the
-- others.
create or replace function houston.search_sessions(
    p_agentable uuid, p_query text, p_since timestamptz, p_until timestamptz, p_limit integer
) returns table (session_id uuid) language plpgsql stable rows 5 as $$
declare
    v_words text[] := houston.search_words(p_query);
    v_any tsquery;
    v_query tsquery;
    v_found uuid[] := '{}';
    v_trigrams tsquery;
begin
    if cardinality(v_words) = 0 then
        return;
    end if;
    v_any := houston.any_lexeme(v_words || array(select '^' || left(w.word, 5) from unnest(v_words) as w (word)
                                                  where length(w.word) > 5));
    v_query := houston.words_query(p_agentable, v_words);
    v_found := array(
        with newest as materialized (
            select s.id, s.search, s.completed_at from houston.sessions s
             where s.agentable_id = p_agentable and s.completed_at >= coalesce(p_since, '-infinity')
               and s.started_at < coalesce(p_until, 'infinity')
             order by s.completed_at desc limit 60)
        select n.id from newest n where n.search @@ v_query
         order by ts_rank(n.search, v_any) desc, n.completed_at desc limit p_limit);
    if cardinality(v_found) < p_limit then
        for v_length in reverse cardinality(v_words) .. 1 loop
            v_query := houston.words_query(p_agentable, v_words[:v_length]);
            v_found := v_found || array(
                with hits as materialized (
                    select s.id, s.completed_at, s.started_at from houston.sessions s where s.search @@ v_query),
                newest as materialized (
                    select h.id, h.completed_at from hits h
                     where h.completed_at >= coalesce(p_since, '-infinity')
                       and h.started_at < coalesce(p_until, 'infinity') and h.id <> all (v_found)
                     order by h.completed_at desc limit 40)
                select n.id from newest n join houston.sessions s on s.id = n.id
                 order by ts_rank(s.search, v_any) desc, n.completed_at desc limit p_limit - cardinality(v_found));
            exit when cardinality(v_found) >= p_limit;
        end loop;
    end if;
    if cardinality(v_found) < p_limit and length(v_words[1]) >= 4 then
        v_trigrams := houston.any_lexeme(houston.trigrams(v_words[:1]));
        v_query := houston.trigrams_query(p_agentable, v_words[1]);
        v_found := v_found || array(
            with hits as materialized (
                select s.id, s.completed_at, s.started_at from houston.sessions s where s.search @@ v_query),
            newest as materialized (
                select h.id, h.completed_at from hits h
                 where h.completed_at >= coalesce(p_since, '-infinity')
                   and h.started_at < coalesce(p_until, 'infinity') and h.id <> all (v_found)
                 order by h.completed_at desc limit 60)
            select r.id from (
                select n.id, n.completed_at,
                       -- the share of the word's trigrams that are in the summary: for lexemes without positions
                       -- ts_rank returns 0.1 / 1.64493406685 each, divided by their number
                       ts_rank(s.search, v_trigrams) * 16.4493406685 as share
                  from newest n join houston.sessions s on s.id = n.id) r
             where r.share >= 0.5
             order by r.share desc, r.completed_at desc limit p_limit - cardinality(v_found));
    end if;
    return query select f.id from unnest(v_found) with ordinality as f (id, n) order by f.n;
end;
$$;
