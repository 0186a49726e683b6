#!/usr/bin/env python3
"""Houston's tables on Citus, one schema for each group of shards: creates those that are missing, executes every statement of
Houston in each, and with --load measures posts, also while a schema moves. DATABASE_URL is the coordinator, for a superuser; without it
two nodes run meanwhile, if a Postgres here has the extension. --plain does the same on a Postgres without. Needs psql and pgbench.

Exit codes: 0 all is well, 1 statements were refused that README.md does not name, 2 something is wrong, 77 there is no Citus."""

import argparse
import atexit
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = tempfile.TemporaryDirectory(prefix="citus-")
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Why Citus refuses statements that Postgres takes, as README.md explains it. Other reasons are new: the suite fails.
KNOWN = "IMMUTABLE|STABLE functions|query on a shard|within INSERT|entry for shard|near .NOT|no parameter|column definition list|case_test_expr"
# What Postgres says of values that do not fit, by code; Citus passes some of it on without.
OF_VALUES = r"ERROR:  (22|23|P0|HO)|violates \S+ constraint|violates foreign key"
# The same ID for all, so that statements find rows.
ID = "01900000-0002-7000-8000-000000000000"
VALUES = {"Uuid": ID, "Text": "a", "Jsonb": "{}", "Timestamptz": "2026-11-30", "Bool": "t", "Bytea": "a", "Interval": "1 s"}
SEED = f"""begin; create temporary table i on commit drop as
select overlay('{ID}' placing lpad(n::text, 12, '0') from 25)::uuid id from generate_series(0, 200) n;
insert into S.tenants (id, name) values ('{ID}', 'suite') on conflict do nothing;
insert into S.users (id, tenant_id, name) select id, '{ID}', 'Ann' from i on conflict do nothing;
insert into S.agentables (id, tenant_id, user_id, kind, title) select id, '{ID}', id, 'goal', 'T' from i on conflict do nothing;
insert into S.run_locks (agentable_id, tenant_id, user_id) select id, '{ID}', id from i on conflict do nothing; commit;
select S.post_message('{ID}', 'Hello'); select 'runs ' || count(*) from S.runs where agentable_id = '{ID}' and status = 'queued'"""
POST = f"\\set n random(1, 200)\nselect S.post_message(overlay('{ID}' placing lpad(:n::text, 12, '0') from 25)::uuid, 'Hello');"
MOVE = """select citus_schema_move('S', nodename, nodeport, 'force_logical') from pg_dist_node n where shouldhaveshards and not exists (
select from citus_shards where table_name = 'S.runs'::regclass and (nodename, nodeport) = (n.nodename, n.nodeport)) limit 1"""


def fail(text, code=2):
    print(text, file=sys.stderr)
    sys.exit(code)


def psql(script, stop=True):
    command = ["psql", "-XAtq", "-v", f"ON_ERROR_STOP={int(stop)}", "-d", os.environ["DATABASE_URL"], "-f", "-"]
    script = "set client_min_messages = warning;\n" + script
    done = subprocess.run(command, input=script, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.strip() if done.returncode == 0 or not stop else fail(f"psql failed:\n{done.stdout[-2000:]}")


def start(home):
    """Starts two nodes in this folder, which only sockets reach."""
    folders = [*map(pathlib.Path, os.get_exec_path()), *sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    programs = next((path for path in folders if (path / "initdb").exists() and (path.parent / "lib/citus.so").exists()), None)
    if programs is None:
        fail("skipped: DATABASE_URL names no coordinator, and no Postgres here has Citus", 77)
    # Postgres refuses to run as root.
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(home, "postgres")

    def run(program, node, *words):
        command = [programs / program, "-D", f"{home}/{node}", *words]
        subprocess.run(command, check=True, cwd=home, stdout=subprocess.DEVNULL, env=os.environ | {"HOME": home}, **user)

    fixed = f"-c unix_socket_directories={home} -c listen_addresses= -c citus.local_hostname={home} -c wal_level=logical"
    for node in (1, 0):
        run("initdb", node, "-A", "trust", "-U", "postgres", "--locale=C.UTF-8")
        run("pg_ctl", node, "-wl", f"{home}/log{node}", "-o", f"-c shared_preload_libraries=citus {fixed} -c port={5432 + node}", "start")
        atexit.register(run, "pg_ctl", node, "-m", "immediate", "stop")
        os.environ["DATABASE_URL"] = f"postgresql:///postgres?host={home}&user=postgres&port={5432 + node}"
        psql("create extension citus")
    psql(f"select citus_set_coordinator_host('{home}', 5432), citus_add_node('{home}', 5433)")
    psql(f"select citus_set_node_property('{home}', 5432, 'shouldhaveshards', true)")


def renamed(sql, schema):
    """The text with another schema in the place of `houston`. Roles keep their names: they are of the whole server."""
    return re.sub(r"(?i)\bhouston(?=(_app)?\.)|(?<=schema )houston(?=(_app)?\b)", schema, sql)


def set_up(schemas, plain):
    if not plain:
        if psql("select count(*) from pg_available_extensions where name = 'citus'") != "1":
            fail("skipped: this Postgres has no Citus; install it (docs.citusdata.com), or use --plain", 77)
        version = psql("create extension if not exists citus;\nselect extversion from pg_extension where extname = 'citus'")
        print(f"Citus {version}, {psql('select count(*) from pg_dist_node where shouldhaveshards')} nodes with shards")
    # The extension in no schema of these: one that has an extension cannot be distributed.
    psql("create extension if not exists pg_trgm")
    psql("select 'create role ' || r from unnest('{houston_api,houston_app}'::text[]) r where to_regrole(r) is null \\gexec")
    files = [*sorted((ROOT / "migrations").glob("*.sql")), *sorted((ROOT / "migrations/functions").glob("*.sql"))]
    for schema in schemas:
        if psql(f"select to_regnamespace('{schema}') is null") == "t":
            texts = [renamed(file.read_text(), schema) + ";" for file in files]
            script = "\n".join(["begin; set local check_function_bodies = off;", f"create schema {schema};", *texts, "commit;"])
            # Afterwards: not all that migrations do is allowed on distributed tables. Unlogged tables cannot move online.
            psql(script if plain else script.replace("create unlogged", "create") + f"\nselect citus_schema_distribute('{schema}');")
            print(f"{schema}: created")


def suite(schemas):
    """Posts a message in each schema, and executes every statement of Houston but those for settings."""
    refused, queries = {}, [json.loads(file.read_text()) for file in sorted((ROOT / "crates/store/.sqlx").glob("query-*.json"))]
    for schema in schemas:
        answer = psql(SEED.replace("S.", f"{schema}."), stop=False)
        print(f"{schema}: a message opened a run" if answer.endswith("runs 1") else fail(f"{schema}: a message opened no run:\n{answer}"))
        script = "set statement_timeout = '30s';\n\\o /dev/null\n\\set VERBOSITY verbose\n"
        for text, kinds in [(query["query"], query["describe"]["parameters"].get("Left", [])) for query in queries]:
            if re.match(r"(\s|--[^\n]*\n)*(select|insert|update|delete|with|values)\b", text, re.IGNORECASE):
                ones = [VALUES.get(kind.removesuffix("Array"), "1") for kind in kinds]
                values = ", ".join(f"'{{\"{one}\"}}'" if kind.endswith("Array") else f"'{one}'" for kind, one in zip(kinds, ones))
                script += "\\echo @ {}\nprepare q as {};\n".format((re.findall(r"-- (store::[\w:]+)", text) or [text])[0], renamed(text, schema))
                script += f"begin;\nexecute q{values and f'({values})'};\nrollback;\ndeallocate q;\n"
        for part in psql(script, stop=False).split("@ ")[1:]:
            errors = [line.split("ERROR:  ")[1] for line in part.splitlines() if "ERROR:" in line and not re.search(OF_VALUES, line)]
            refused |= {part.split("\n")[0]: error for error in errors[:1]}
    new = {name for name, why in refused.items() if not re.search(KNOWN, why)}
    for name, why in sorted(refused.items()):
        print(f"{'NEW  ' if name in new else 'known'} {name}: {why}")
    print(f"{script.count('deallocate')} statements in each schema; {len(refused)} texts are refused")
    return 1 if new else 0


def load(what, schemas, seconds, meanwhile=""):
    """Posts of four clients. Each that was acknowledged must be there afterwards."""
    posts = "select " + " + ".join(f"(select count(*) from {schema}.messages)" for schema in schemas)
    before, folder = int(psql(posts)), tempfile.mkdtemp(dir=FOLDER.name)
    for schema in schemas:
        pathlib.Path(folder, schema).write_text(POST.replace("S.", f"{schema}."))
    command = ["pgbench", "-nlM", "prepared", "-c4", f"-T{seconds}", f"--log-prefix={folder}/log", *(f"-f{folder}/{schema}" for schema in schemas)]
    bench = subprocess.Popen([*command, os.environ["DATABASE_URL"]], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    took = psql(f"select pg_sleep({seconds / 4});\n\\timing on\n{meanwhile}").split("Time: ")[-1]
    printed = bench.communicate()[0]
    lines = [line.split() for log in pathlib.Path(folder).glob("log*") for line in log.read_text().splitlines()]
    stored = int(psql(posts)) - before
    if bench.returncode != 0 or stored != len(lines):
        fail(f"{what}: {len(lines)} posts were acknowledged, {stored} are stored:\n{printed[-2000:]}")
    print(f"{what}{took}: {stored / seconds:.0f} posts/s, all are there")
    for number, schema in enumerate(schemas):
        waits = sorted(int(line[2]) / 1000 for line in lines if int(line[3]) == number)
        print(f"  {schema}: median {waits[len(waits) // 2]:.1f} ms, 99 % {waits[len(waits) * 99 // 100]:.1f} ms, longest {waits[-1]:.0f} ms")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--groups", type=int, default=2, help="groups of shards: as many schemas, h00, h01, …")
parser.add_argument("--load", type=int, default=0, metavar="SECONDS", help="how long to post, each time")
parser.add_argument("--plain", action="store_true", help="without Citus")
options = parser.parse_args()
if "DATABASE_URL" not in os.environ:
    start(FOLDER.name)
names = [f"h{group:02}" for group in range(options.groups)]
set_up(names, options.plain)
status = suite(names)
if options.load:
    load("posts", names, options.load)
    if not options.plain:
        load(f"posts, and {names[-1]} moves in ", names, options.load, MOVE.replace("S", names[-1]))
sys.exit(status)
