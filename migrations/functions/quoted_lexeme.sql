-- A lexeme as it is written in a tsquery.
create or replace function houston.quoted_lexeme(p_lexeme text) returns text
language sql immutable strict parallel safe as
$$ select '''' || replace(replace(p_lexeme, '\', '\\'), '''', '''''') || '''' $$;
