-- A tsquery for the agentable's sessions whose summary has three neighbouring trigrams of the word. After a typing
-- error in a longer word, its first three letters or any five letters in a row still match. Two trigrams are in nearly
-- every summary.
create or replace function houston.trigrams_query(p_agentable uuid, p_word text) returns tsquery
language sql immutable strict as $$
    select (houston.quoted_lexeme('@' || p_agentable) || ' & (' || string_agg(
               houston.quoted_lexeme('~' || substr(p.padded, n, 3)) || ' & '
               || houston.quoted_lexeme('~' || substr(p.padded, n + 1, 3)) || ' & '
               || houston.quoted_lexeme('~' || substr(p.padded, n + 2, 3)), ' | ') || ')')::tsquery
      from (select '  ' || p_word || ' ' as padded) p, generate_series(1, length(p_word) - 1) n
$$;
