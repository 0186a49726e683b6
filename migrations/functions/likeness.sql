-- How similar p_text is to the words of p_query, by trigrams and so independent of endings and typing errors: from 0
-- (no word is similar to any in the text) to 1 (each word is in it). Only the five longest words of the query, which
-- are the most specific, and the first 500 characters of the text are compared: a thousand long texts then take half a
-- second and not four.
create or replace function houston.likeness(p_query text, p_text text) returns real language sql immutable strict
begin atomic
    select coalesce(avg(case when l.likeness >= 0.5 then l.likeness else 0 end), 0)::real
      from (select w.word from regexp_split_to_table(p_query, '\W+') as w (word)
             where length(w.word) >= 3 order by length(w.word) desc limit 5) as words,
           lateral (select word_similarity(words.word, left(p_text, 500)) as likeness) as l;
end;
