-- Why a provider has refused an image or a file: no model is sent it again.
alter table houston.images add column refused text;
alter table houston.attachments add column refused text;
