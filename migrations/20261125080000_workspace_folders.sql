-- Where the operator has set a folder for workspaces, a file is written in two steps: its row says, in the transaction of the
-- tool call, what the file is to be; then it is written to the folder, and the row keeps what the folder cannot: the version
-- that Houston wrote, whether a session wrote it that had read what strangers wrote, and when it was created.
--   row      the text is in the row; without a folder all are like this
--   new      the text is in the row, and is to be written to the folder
--   moved    the file is in the folder of another agentable (`content`: its id, a slash and the path there), and is to be moved
--   removed  the file is to be deleted from the folder
--   folder   the text is in the folder, and `content` is empty
alter table houston.workspace_files add column place text not null default 'row'
    constraint workspace_files_place check (place in ('row', 'new', 'moved', 'removed', 'folder'));

-- What is to be done in folders, and whether there is anything in one. Without a folder it is empty.
create index workspace_files_in_folder on houston.workspace_files (place, agentable_id) where place <> 'row';
