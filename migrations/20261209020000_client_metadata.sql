-- What a client of OpenAI says of a conversation (`metadata`): an object of texts; null: nothing was said, or it is no such
-- client's. Nothing of Houston reads it.
alter table houston.agentables add column client_metadata jsonb;
