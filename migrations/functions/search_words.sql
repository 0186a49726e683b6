-- The words that a search looks for: the five longest of the query, which are the most specific, the longest first.
create or replace function houston.search_words(p_query text) returns text[] language sql immutable strict as $$
    select array(select l.word from unnest(tsvector_to_array(to_tsvector('simple', p_query))) as l (word)
                  where length(l.word) >= 2 order by length(l.word) desc, l.word limit 5)
$$;
