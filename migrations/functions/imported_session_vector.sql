-- The search vector of an imported session. If it has more words than a tsvector can store, only the summary is
-- indexed.
create or replace function houston.imported_session_vector(p_agentable uuid, p_summary text, p_conversation text)
returns tsvector language plpgsql immutable as $$
begin
    return houston.session_vector(p_agentable, p_summary, p_conversation);
exception when program_limit_exceeded then
    return houston.session_vector(p_agentable, p_summary, '');
end;
$$;
