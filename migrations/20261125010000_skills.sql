-- Skills of tenants, for all their users, and of users: instructions that agents read when a message calls for them. Requests
-- and operators write them; runs read them.
create table houston.skills (
    -- the user, or else the tenant
    owner_id uuid not null,
    -- `crates/domain/src/skill.rs` says what a name is
    name text collate "C" not null,
    tenant_id uuid not null references houston.tenants on delete cascade,
    user_id uuid references houston.users on delete cascade,
    -- SKILL.md as it was given
    text text not null,
    -- what every run reads: name, brief, triggers, enabled
    summary jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (owner_id, name),
    check (owner_id = coalesce(user_id, tenant_id))
);

-- Skills of a tenant or user that is deleted.
create index skills_by_tenant on houston.skills (tenant_id);
create index skills_by_user on houston.skills (user_id) where user_id is not null;

-- Files beside a SKILL.md.
create table houston.skill_files (
    owner_id uuid not null,
    skill text collate "C" not null,
    -- one level below scripts/, references/ or assets/
    path text collate "C" not null,
    tenant_id uuid not null,
    content text not null,
    primary key (owner_id, skill, path),
    foreign key (owner_id, skill) references houston.skills (owner_id, name) on delete cascade
);
