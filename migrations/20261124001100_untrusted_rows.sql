-- Rows that a session wrote after it had read what strangers wrote. Who reads them has read that, too: their text is given to
-- models between marks, and the session that reads them is marked like the one that wrote them.
alter table houston.workspace_files add column untrusted boolean not null default false;
alter table houston.knowledge_items add column untrusted boolean not null default false;
alter table houston.compressions add column untrusted boolean not null default false;

-- A run asks whether what its prompt shows was written like that.
create index knowledge_untrusted on houston.knowledge_items (owner_id, kind) where untrusted;

-- Like `[files]` of jobs/knowledge.toml: the end of a task moves its files to another workspace.
insert into houston.settings (name, value) values ('files.max_files', 1000), ('files.max_bytes', 16777216)
on conflict (name) do nothing;
