-- Like the rows marked before: who reads these has read what strangers wrote.

-- Tasks whose instructions were written after reading it: their runs are marked from the start.
alter table houston.agentables add column untrusted boolean not null default false;
-- Sessions in which it was read, once a model has summarised them.
alter table houston.sessions add column untrusted boolean not null default false;
