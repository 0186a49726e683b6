#!/usr/bin/env python3
"""Houston's tables on Citus, one schema for each group of shards: creates those that are missing, plans every statement of
Houston in each, and posts a message in each.

    DATABASE_URL=postgres://… ./citus.py [--groups 2] [--plain]

DATABASE_URL is the coordinator; the role must own the database and may create roles. `--plain` does the same on a Postgres without the
extension, to compare. Needs psql.

Exit codes: 0 all is well, 1 statements were refused that README.md does not name, 2 something is wrong, 77 there is no Citus.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
# Reasons, as regular expressions, for which Citus refuses statements that Postgres takes, as README.md explains them. Others are new: the suite fails.
KNOWN = [
    "VOLATILE",
    "STABLE functions used in UPDATE queries cannot be called with column references",
    "non-IMMUTABLE functions are not allowed",
    "cannot execute a distributed query from a query on a shard",
    "could not create distributed plan",
    "could not run distributed query with FOR UPDATE/SHARE commands",
    'syntax error at or near "NOT"',
    "function .* does not exist",
]


def psql(script, stop=True):
    """Runs a script in one session; returns what it prints, errors between."""
    arguments = ["psql", "-XAtq", "-v", f"ON_ERROR_STOP={int(stop)}", "-d", os.environ["DATABASE_URL"], "-f", "-"]
    done = subprocess.run(arguments, input=script, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if stop and done.returncode != 0:
        fail(f"psql failed:\n{done.stdout[-2000:]}")
    return done.stdout


def fail(text, code=2):
    print(text, file=sys.stderr)
    sys.exit(code)


def renamed(sql, schema):
    """The text with another schema in the place of `houston`. Roles keep their names: they are of the whole server."""
    sql = re.sub(r"\bhouston\.", f"{schema}.", sql)
    sql = re.sub(r"\bhouston_app\.", f"{schema}_app.", sql)
    return re.sub(r"(?i)\bschema houston(_app)?\b", rf"schema {schema}\1", sql)


def require_citus():
    if psql("select count(*) from pg_available_extensions where name = 'citus'").strip() != "1":
        fail("skipped: this Postgres has no Citus; install it (docs.citusdata.com), or use --plain", SKIPPED)
    version = psql("create extension if not exists citus;\nselect extversion from pg_extension where extname = 'citus'").strip()
    if tuple(int(part) for part in re.findall(r"\d+", version)[:1]) < (12,):
        fail(f"Citus {version} has no schema-based sharding: 12 or later is needed")
    print(f"Citus {version}, {psql('select count(*) from citus_get_active_worker_nodes()').strip()} worker nodes")


def set_up(schemas, plain):
    psql(
        "do $$ declare role text; begin foreach role in array array['houston_api', 'houston_app'] loop\n"
        "if to_regrole(role) is null then execute format('create role %I', role); end if; end loop; end $$"
    )
    for schema in schemas:
        if psql(f"select to_regnamespace('{schema}') is not null").strip() == "t":
            continue
        # Tables of a schema that is created so are on one node, together, and joins and transactions among them are local. Only
        # the schema of the tables is distributed.
        sharding = [] if plain else [f"set local citus.enable_schema_based_sharding = {state};" for state in ("on", "off")]
        script = ["begin;", "set local check_function_bodies = off;", *sharding[:1], f"create schema {schema};", *sharding[1:]]
        # A function uses the extension, which is in the first schema.
        found = "select set_config('search_path', extnamespace::regnamespace::text, true) from pg_extension where extname = 'pg_trgm';"
        for folder, before in [(ROOT / "migrations", []), (ROOT / "migrations/functions", [found])]:
            script += before + [renamed(file.read_text(), schema) + ";" for file in sorted(folder.glob("*.sql"))]
        psql("\n".join(script + ["commit;"]))
        print(f"{schema}: created")


def statements():
    """Name, text and number of parameters of every statement of Houston that can be planned: settings cannot."""
    for file in sorted((ROOT / "crates/store/.sqlx").glob("query-*.json")):
        described = json.loads(file.read_text())
        name = re.match(r"\s*-- (store::[\w:]+)", described["query"])
        parameters = described["describe"]["parameters"].get("Left", [])
        if re.match(r"(\s|--[^\n]*\n)*(select|insert|update|delete|with|values)\b", described["query"], re.IGNORECASE):
            yield name.group(1) if name else file.stem, described["query"], len(parameters)


def suite(schemas):
    """Plans every statement in each schema, and posts a message in each."""
    refused, count = {}, 0
    for schema in schemas:
        script = ["set statement_timeout = '30s'; set plan_cache_mode = force_custom_plan;"]
        for name, text, parameters in statements():
            values = ", ".join(["null"] * parameters)
            execute = f"execute q({values})" if parameters else "execute q"
            script += [f"\\echo @ {name}", f"prepare q as {renamed(text, schema)};", f"explain {execute};", "deallocate q;"]
            count += 1
        name = None
        for line in psql("\n".join(script), stop=False).splitlines():
            if line.startswith("@ "):
                name = line[2:]
            elif "ERROR:" in line and 'prepared statement "q"' not in line:
                refused.setdefault(name, line.split("ERROR:")[1].strip())
        posted(schema)
    new = {name: why for name, why in refused.items() if not any(re.search(known, why) for known in KNOWN)}
    for name, why in sorted(refused.items()):
        print(f"{'NEW  ' if name in new else 'known'} {name}: {why}")
    print(f"{count - len(schemas) * len(refused)} of {count} statements are planned in {len(schemas)} schemas; {len(refused)} texts are refused")
    return 1 if new else 0


def posted(schema):
    """A message of a new agentable opens a run, in one transaction that is not kept."""
    script = f"""begin;
insert into {schema}.tenants (id, name) values ('01900000-0000-7000-8000-000000000000', 'suite');
insert into {schema}.users (id, tenant_id, name)
values ('01900000-0001-7000-8000-000000000000', '01900000-0000-7000-8000-000000000000', 'Ann');
insert into {schema}.agentables (id, tenant_id, user_id, kind, title)
values ('01900000-0002-7000-8000-000000000000', '01900000-0000-7000-8000-000000000000', '01900000-0001-7000-8000-000000000000', 'goal', 'T');
insert into {schema}.run_locks (agentable_id, tenant_id, user_id)
values ('01900000-0002-7000-8000-000000000000', '01900000-0000-7000-8000-000000000000', '01900000-0001-7000-8000-000000000000');
select {schema}.post_message('01900000-0002-7000-8000-000000000000', 'Hello');
select 'runs ' || count(*) from {schema}.runs where status = 'queued';
rollback;"""
    answer = psql(script, stop=False)
    if "runs 1" not in answer:
        fail(f"{schema}: a message that was posted opened no run:\n{answer}")
    print(f"{schema}: a message opened a run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=2, help="groups of shards: as many schemas, h00, h01, …")
    parser.add_argument("--plain", action="store_true", help="without Citus")
    arguments = parser.parse_args()
    if "DATABASE_URL" not in os.environ:
        fail("skipped: DATABASE_URL names no coordinator", SKIPPED)
    if not arguments.plain:
        require_citus()
    schemas = [f"h{group:02}" for group in range(arguments.groups)]
    set_up(schemas, arguments.plain)
    return suite(schemas)


if __name__ == "__main__":
    sys.exit(main())
