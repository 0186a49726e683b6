-- The search vector of a closed session. It contains
--   word     of the summary (which counts more) and of the conversation, as written
--   ^begin   the first five letters of each longer word: finds finances by finance, in any language
--   ~tri     trigrams of the words of the summary: finds finances by finanses. As pg_trgm has them, but
--            never of bytes, so the same in every encoding
--   @id      the agentable, so that a search reads no entry of another
create or replace function houston.session_vector(p_agentable uuid, p_summary text, p_conversation text)
returns tsvector language sql immutable as $$
    with words as materialized (
        select setweight(to_tsvector('simple', p_summary), 'A')
               || strip(to_tsvector('simple', p_conversation)) as vector)
    select w.vector
           || array_to_tsvector(array(select distinct '^' || left(l.word, 5)
                                        from unnest(tsvector_to_array(w.vector)) as l (word) where length(l.word) > 5))
           || array_to_tsvector(array(select distinct '~' || substr('  ' || l.word || ' ', n, 3)
                                        from unnest(tsvector_to_array(to_tsvector('simple', p_summary))) as l (word),
                                             generate_series(1, length(l.word) + 1) n))
           || array_to_tsvector(array['@' || p_agentable])
      from words w;
$$;
