-- Answers about focuses that are too old to be shown are deleted, the oldest first.
create index context_cache_old on houston.context_cache (greatest(fetched_at, voided_at, refreshing_until));
