-- A tsquery for the agentable's sessions that have each of the words, or a word with the same beginning.
create or replace function houston.words_query(p_agentable uuid, p_words text[]) returns tsquery
language sql immutable strict as $$
    select (houston.quoted_lexeme('@' || p_agentable) || coalesce((
        select string_agg(' & (' || houston.quoted_lexeme(w.word)
                          || case when length(w.word) > 5 then ' | ' || houston.quoted_lexeme('^' || left(w.word, 5))
                                  else '' end || ')', '')
          from unnest(p_words) as w (word)), ''))::tsquery
$$;
