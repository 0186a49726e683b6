-- A tsquery for any of the lexemes; for ranks.
create or replace function houston.any_lexeme(p_lexemes text[]) returns tsquery language sql immutable strict as $$
    select coalesce((select string_agg(houston.quoted_lexeme(l.lexeme), ' | ')
                       from unnest(p_lexemes) as l (lexeme)), '')::tsquery
$$;
