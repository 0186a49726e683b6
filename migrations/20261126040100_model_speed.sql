-- How fast models answer: from the request to the first event, and to the end; null where nothing was measured.
alter table houston.model_calls add column first_event_ms integer, add column took_ms integer;

-- Calls of the last minutes. Rows are only appended, so a summary of each range of pages finds them and costs a call
-- nothing.
create index model_calls_by_time on houston.model_calls using brin (created_at)
    with (pages_per_range = 16, autosummarize = on);
