-- Trigrams of words, as pg_trgm computes them, but of letters and never of bytes, so the same in every encoding.
create or replace function houston.trigrams(p_words text[]) returns text[] language sql immutable strict as $$
    select array(select distinct '~' || substr('  ' || w.word || ' ', n, 3)
                   from unnest(p_words) as w (word), generate_series(1, length(w.word) + 1) n)
$$;
