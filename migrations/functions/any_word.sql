-- A tsquery for any word of a text. `plainto_tsquery` requires all of them, which finds nothing for a whole question.
create or replace function houston.any_word(p_text text) returns tsquery language sql immutable strict as
$$ select replace(plainto_tsquery('simple', p_text)::text, ' & ', ' | ')::tsquery $$;
