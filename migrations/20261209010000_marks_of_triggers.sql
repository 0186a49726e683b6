-- What is evaluated of a trigger could end the process. The mark stays when it does.
alter table houston.triggers
    -- When the evaluation that runs has ended, or its process is dead.
    add column evaluated_until timestamptz,
    -- How many processes have died while they evaluated it.
    add column deaths smallint not null default 0;
create index triggers_evaluated on houston.triggers (evaluated_until) where evaluated_until is not null;
