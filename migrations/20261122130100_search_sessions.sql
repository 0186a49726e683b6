-- Search in the closed sessions of one agentable. One GIN index answers, for one agentable, whatever others have: the
-- agentable stands among the words of each vector, so that no entry of another is looked at. (An index over agentable
-- and words would need btree_gin, which not every Postgres brings.)
--
-- What stands in a vector:
--   word      of the summary (which counts more) and of the conversation, as written
--   ^begin    the first five letters of each longer word: finds finances by finance, in any language
--   ~tri      trigrams of the words of the summary: finds finances by finanses
--   @id       the agentable
create index sessions_by_words on houston.sessions using gin (search) with (fastupdate = off);
create index sessions_by_time on houston.sessions (agentable_id, completed_at);

-- A lexeme as a tsquery has it.
create function houston.quoted_lexeme(p_lexeme text) returns text language sql immutable strict parallel safe as
$$ select '''' || replace(replace(p_lexeme, '\', '\\'), '''', '''''') || '''' $$;

-- Trigrams of words, as pg_trgm makes them, but the same in every encoding: of letters, never of their bytes.
create function houston.trigrams(p_words text[]) returns text[] language sql immutable strict as $$
    select array(select distinct '~' || substr('  ' || w.word || ' ', n, 3)
                   from unnest(p_words) as w (word), generate_series(1, length(w.word) + 1) n)
$$;

create function houston.session_vector(p_agentable uuid, p_summary text, p_conversation text) returns tsvector
language sql immutable as $$
    with words as materialized (
        select setweight(to_tsvector('simple', p_summary), 'A') || strip(to_tsvector('simple', p_conversation)) as vector)
    select w.vector
           || array_to_tsvector(array(select distinct '^' || left(l.word, 5)
                                        from unnest(tsvector_to_array(w.vector)) as l (word) where length(l.word) > 5))
           || array_to_tsvector(houston.trigrams(tsvector_to_array(to_tsvector('simple', p_summary))))
           || array_to_tsvector(array['@' || p_agentable])
      from words w;
$$;

-- What a search looks for: the five longest words, which say the most, the longest first.
create function houston.search_words(p_query text) returns text[] language sql immutable strict as $$
    select array(select l.word from unnest(tsvector_to_array(to_tsvector('simple', p_query))) as l (word)
                  where length(l.word) >= 2 order by length(l.word) desc, l.word limit 5)
$$;

-- Vectors of the agentable with each of the words, or with a word that begins like it.
create function houston.words_query(p_agentable uuid, p_words text[]) returns tsquery language sql immutable strict as $$
    select (houston.quoted_lexeme('@' || p_agentable) || coalesce((
        select string_agg(' & (' || houston.quoted_lexeme(w.word)
                          || case when length(w.word) > 5 then ' | ' || houston.quoted_lexeme('^' || left(w.word, 5))
                                  else '' end || ')', '')
          from unnest(p_words) as w (word)), ''))::tsquery
$$;

-- Any of the lexemes: for ranks.
create function houston.any_lexeme(p_lexemes text[]) returns tsquery language sql immutable strict as $$
    select coalesce((select string_agg(houston.quoted_lexeme(l.lexeme), ' | ')
                       from unnest(p_lexemes) as l (lexeme)), '')::tsquery
$$;

-- Vectors of the agentable whose summary has three neighbouring trigrams of the word: a slip of the pen in a longer word
-- leaves such, its first three letters or any five in a row. Two would be found in nearly every summary.
create function houston.trigrams_query(p_agentable uuid, p_word text) returns tsquery language sql immutable strict as $$
    select (houston.quoted_lexeme('@' || p_agentable) || ' & (' || string_agg(
               houston.quoted_lexeme('~' || substr(p.padded, n, 3)) || ' & '
               || houston.quoted_lexeme('~' || substr(p.padded, n + 1, 3)) || ' & '
               || houston.quoted_lexeme('~' || substr(p.padded, n + 2, 3)), ' | ') || ')')::tsquery
      from (select '  ' || p_word || ' ' as padded) p, generate_series(1, length(p_word) - 1) n
$$;

-- The closed sessions of an agentable that fit a query best, p_limit at most, best first; of those that fit as well,
-- the newest. Only those that lie, at least in part, after p_since and before p_until, if given.
--
-- First what has all words, then what has all but the shortest, and so on; at last what has a word like the longest.
-- A word that stands everywhere is found among the newest sixty and costs no look at the others.
create function houston.search_sessions(
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
                       -- the share of the word's trigrams that the summary has: what ts_rank gives for lexemes
                       -- without positions is 0.1 / 1.64493406685 each, over their number
                       ts_rank(s.search, v_trigrams) * 16.4493406685 as share
                  from newest n join houston.sessions s on s.id = n.id) r
             where r.share >= 0.5
             order by r.share desc, r.completed_at desc limit p_limit - cardinality(v_found));
    end if;
    return query select f.id from unnest(v_found) with ordinality as f (id, n) order by f.n;
end;
$$;

-- A time zone this Postgres knows, and UTC for any other: a search must not fail a run because of a name.
create function houston.known_zone(p_zone text) returns text language plpgsql stable as $$
begin
    perform clock_timestamp() at time zone p_zone;
    return p_zone;
exception when others then
    return 'UTC';
end;
$$;

-- When `today`, `yesterday`, `last_week`, … was for a user. Generous: last month is the month before this one, and this
-- one up to now.
create function houston.timeframe(p_name text, p_zone text, out since timestamptz, out until timestamptz)
language plpgsql stable as $$
declare
    v_day timestamp := date_trunc('day', clock_timestamp() at time zone p_zone);
begin
    since := case p_name
                 when 'today' then v_day
                 when 'yesterday' then v_day - interval '1 day'
                 when 'last_week' then date_trunc('week', v_day) - interval '1 week'
                 when 'last_month' then date_trunc('month', v_day) - interval '1 month'
                 when 'last_year' then date_trunc('year', v_day) - interval '1 year'
             end at time zone p_zone;
    if p_name = 'yesterday' then
        until := v_day at time zone p_zone;
    end if;
end;
$$;
