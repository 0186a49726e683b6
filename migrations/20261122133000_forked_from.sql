-- Of which conversation an agentable is a copy, if it is one; null as well once that is gone.
alter table houston.agentables
    add column forked_from uuid references houston.agentables on delete set null;

-- For the agentable that is deleted.
create index agentables_by_origin on houston.agentables (forked_from) where forked_from is not null;
