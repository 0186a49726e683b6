//! The hot queries, and how many rows and blocks each may touch.

use houston_testkit::seed_data::SeedData;

use crate::batch::SETTINGS;
use crate::{archived, batch, begun, focus, long, operate, phone, retention, streams, triggers};

/// A query in a situation.
pub(crate) struct Case {
    /// The name at the beginning of its text: `store::<noun>::<function>`.
    pub(crate) name: &'static str,
    pub(crate) when: &'static str,
    /// SQL to execute first, in the same transaction.
    pub(crate) before: String,
    pub(crate) arguments: Vec<String>,
    /// Indexes that its plan must use.
    pub(crate) uses: &'static [&'static str],
    /// The maximum numbers of rows and blocks it may touch.
    pub(crate) rows: u64,
    pub(crate) blocks: u64,
}

/// Agentables: one that waits for a worker, one that worker 5 drives, and an idle one.
pub(crate) const WAITING: u32 = 5;
pub(crate) const DRIVEN: u32 = 2_005;
/// Two more that are driven: one answered by an agent, one by a team.
const OF_AGENT: u32 = 2_011;
const OF_TEAM: u32 = 2_012;
pub(crate) const IDLE: u32 = 50_000;
/// The worker that drives them.
pub(crate) const WORKER: u32 = 5;
/// Users: each has ten agentables.
pub(crate) const USERS: u32 = SeedData::LARGE.agentables / 10;
/// The number of the first open run, and of the latest run of the idle agentable.
pub(crate) const OPEN_RUNS: u32 = SeedData::LARGE.agentables * SeedData::LARGE.runs;
pub(crate) const LAST_RUNS: u32 = OPEN_RUNS - SeedData::LARGE.agentables;
/// The last `seq` of every thread after its completed runs.
pub(crate) const SEQ: u32 = 5 * SeedData::LARGE.runs;
const TOKEN: &str = "'77777777-7777-7777-7777-777777777777'";

pub(crate) fn id(kind: &str, number: u32) -> String {
    format!("'{}'", SeedData::id(kind, number))
}

pub(crate) fn case(
    name: &'static str,
    when: &'static str,
    arguments: &[&str],
    uses: &'static [&'static str],
    [rows, blocks]: [u64; 2],
) -> Case {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    Case { name, when, before: String::new(), arguments, uses, rows, blocks }
}

impl Case {
    pub(crate) fn after(mut self, before: String) -> Self {
        self.before = before;
        self
    }
}

/// Takes the lock of a goal, for a commit.
pub(crate) fn claimed(goal: u32) -> String {
    format!(
        "with l as (
            update houston.run_locks set epoch = epoch + 1, run_token = {TOKEN}, holder = {worker}, wake = false,
                   read_seq = last_seq, unread = 0
             where agentable_id = {goal} returning run_id, user_id, epoch)
         update houston.runs r set status = 'running', attempt = 1, epoch = l.epoch, worker_id = {worker},
                held_for = l.user_id, slot = 1000
           from l where r.id = l.run_id;
         select epoch, run_id from houston.run_locks where agentable_id = {goal} \\gset\n",
        goal = id("goal", goal),
        worker = id("worker", WORKER)
    )
}

/// Posting, claiming, committing.
fn writes() -> Vec<Case> {
    let (tenant, idle, waiting) = (id("tenant", 0), id("goal", IDLE), id("goal", WAITING));
    let (run, seq) = (id("run", OPEN_RUNS + WAITING), SEQ.to_string());
    let cancel = [&tenant, &waiting, &run, &seq, "'interrupt'"];
    let mut cases = vec![
        case("store::message::alone::lock_key", "", &[&tenant, "'key'"], &[], [5, 10]),
        case(
            "store::message::alone::posted_under",
            "a key that was used",
            &[&tenant, "'key 50000'", "'\\x00'"],
            &["idempotency_keys_pkey"],
            [5, 20],
        ),
        case("store::message::posted_into", "", &[&idle, &seq], &["runs_by_agentable"], [5, 20]),
        case("store::message::alone::lock", "", &[&waiting, &tenant, "10000"], &["run_locks_pkey"], [20, 60]),
        case("store::message::alone::cancel", "", &cancel, &["runs_pkey", "run_locks_pkey"], [10, 60]),
        case("store::system_message::lock", "", &[&waiting], &["run_locks_pkey"], [5, 10]),
    ];
    cases.extend(disturbed_step());
    cases
}

/// A step that is committed by itself, statement by statement.
fn disturbed_step() -> Vec<Case> {
    let (waiting, run) = (id("goal", WAITING), id("run", OPEN_RUNS + WAITING));
    let (seq, call) = (SEQ.to_string(), "gen_random_uuid()");
    let locks = &["run_locks_pkey"];
    let messages = &["messages_agentable_id_seq_key"];
    vec![
        case("store::step::alone::lock", "", &[&waiting], locks, [5, 10]),
        case("store::step::alone::read", "", &[&waiting], &["run_locks_pkey", "runs_pkey"], [10, 30]),
        case(
            "store::step::alone::unread",
            "",
            &[&waiting, &seq, "100", "262144", "true"],
            messages,
            [20, 40],
        ),
        case("store::message::move_messages", "", &[&waiting, &seq, "1000000", &run], messages, [10, 60]),
        case("store::step::alone::open_next_run", "", &[&waiting, call, "1000000", "now()"], locks, [10, 80]),
        case(
            "store::step::end::discarded_reports",
            "",
            &[&waiting, &seq, &seq, &run, "1000000"],
            messages,
            [10, 30],
        ),
    ]
}

/// All statements of one run of the waiting goal, once each.
pub(crate) fn turn_of_one_that_waits(rows: u64, blocks: u64) -> Vec<Case> {
    let waiting = id("goal", WAITING);
    let context = context("of one that waits", WAITING, &[], [0, 0]);
    let writes = writes().into_iter().filter(|case| case.arguments.contains(&waiting));
    writes.chain([context]).map(|case| Case { rows, blocks, ..case }).collect()
}

/// The queries that every worker repeats.
fn watching() -> Vec<Case> {
    let worker = id("worker", WORKER);
    let none = "'00000000-0000-0000-0000-000000000000'";
    let last = "'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    let sweep = &["run_locks_awake", "runs_held", "agentables_pkey"];
    let dead = format!("update houston.workers set alive_until = clock_timestamp() where id = {worker};");
    vec![
        case("store::sweep::due", "2,000 wait", &[none, "500", "10"], sweep, [5_000, 10_000]),
        case(
            "store::sweep::due",
            "nothing waits any more",
            &[last, "500", "10"],
            &["run_locks_awake"],
            [700, 1_000],
        ),
        case("store::sweep::orphans", "all live", &["500"], &["runs_in_flight"], [2_000, 1_000]),
        case("store::sweep::orphans", "a worker died", &["500"], &["runs_in_flight"], [2_000, 1_000])
            .after(dead.clone()),
        case("store::lease::renew", "", &[&worker, "30"], &[], [20, 20]),
        case("store::lease::suspects", "", &["7"], &[], [20, 20]),
        case("store::lease::reap", "all live", &["'{}'", "'{}'"], &[], [20, 20]),
        case("store::lease::reap", "one is dead", &["'{}'", "'{}'"], &[], [20, 20]).after(dead),
        case("store::run::cancelled_of", "25 runs are driven", &[&worker], &["runs_in_flight"], [50, 100]),
    ]
}

/// The context of a run, with the agent that answers.
fn context(when: &'static str, goal: u32, who: &[&'static str], bounds: [u64; 2]) -> Case {
    let (driven, run) = (id("goal", goal), id("run", OPEN_RUNS + goal));
    let limits = ["20", "500", "10", "200", "20", "1000", "10", "200", "5", "1000", "'{}'", "'{}'", "20"];
    let (of, runs) = (format!("array[{driven}]::uuid[]"), format!("array[{run}]::uuid[]"));
    let arguments: Vec<&str> = [of.as_str(), &runs].into_iter().chain(limits).collect();
    let indexes = [
        "run_locks_pkey",
        "agentables_pkey",
        "history_pkey",
        "knowledge_by_owner",
        "users_pkey",
        "profiles_pkey",
        "sessions_agentable_id_number_key",
        "check_ins_by_agentable",
        "compressions_by_position",
        "tool_results_pkey",
    ];
    let uses: Vec<&'static str> = indexes.into_iter().chain(who.iter().copied()).collect();
    // Longer than the test runs.
    case("store::run_context::batch::read", when, &arguments, uses.leak(), bounds).after(SETTINGS.to_owned())
}

/// The router's pick, in the stream of a goal's open run.
fn picked(goal: u32) -> String {
    format!(
        "insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
         select {}, {}, {}, {}, 1, jsonb_build_object('type', 'team_routed', 'agent_id', 'agent_{}');",
        id("goal", goal),
        SEQ + 3,
        id("tenant", 0),
        id("run", OPEN_RUNS + goal),
        SeedData::id("agent", 7).replace('-', "")
    )
}

/// Agents and teams.
fn agents() -> Vec<Case> {
    let (tenant, agent, team) = (id("tenant", 0), id("agent", 11), id("team", 12));
    let few = format!("array[{agent}]::uuid[]");
    vec![
        case("store::agent::list", "", &[&tenant, "null", "21"], &["agents_by_tenant"], [30, 50]),
        // At most all agents of a tenant, which are a thousand: an index finds them, then they are read.
        case("store::agent::by_kind", "", &[&tenant], &[], [2_020, 200]),
        case("store::agent::among", "", &[&tenant, &few], &[], [1_010, 200]),
        case(
            "store::agent::users",
            "",
            &[&tenant, &agent, "5"],
            &["team_agents_by_agent", "agentables_by_agent"],
            // A generic plan, which does not use the agent, reads all two hundred teams of the tenant.
            [450, 700],
        ),
        // At most all teams of a tenant, and the agents of a page.
        case("store::team::list", "", &[&tenant, "null", "null", "21"], &["teams_by_tenant"], [700, 300]),
        case("store::team::list", "one", &[&tenant, &team, "null", "1"], &["teams_by_tenant"], [230, 60]),
        case("store::team::users", "", &[&tenant, &team], &["agentables_by_team"], [20, 30]),
        case(
            "store::serving::set",
            "",
            &[&tenant, &id("goal", IDLE), "true", &agent, "null", "true", "array['create_note']"],
            &["agentables_pkey"],
            [10, 80],
        ),
    ]
}

fn followed() -> Vec<Case> {
    let (driven, run) = (id("goal", DRIVEN), id("run", LAST_RUNS + IDLE));
    vec![
        context("by the default agent", DRIVEN, &["agents_default"], [45, 130]),
        context("by an agent", OF_AGENT, &["agents_pkey"], [45, 135]),
        context("a team is to pick", OF_TEAM, &["agents_pkey", "teams_pkey"], [75, 195]),
        context("a team has picked", OF_TEAM, &["agents_pkey", "events_pkey"], [50, 160])
            .after(format!("{SETTINGS}{}", picked(OF_TEAM))),
        context(
            "its message has another focus",
            DRIVEN,
            &["agents_default", "client_offers_pkey"],
            [50, 140],
        )
        .after(format!("{SETTINGS}{}", focus::offered(DRIVEN))),
        case("store::history::known_calls", "", &[&run], &["tool_calls_pkey"], [10, 10]),
        case("store::record::is_held", "", &[&driven, "6", TOKEN], &["run_locks_pkey"], [5, 10]),
        case("store::record::abandon", "", &[&driven, TOKEN, "false"], &["run_locks_pkey"], [5, 20]),
    ]
}

/// Queries of REST requests.
fn asked() -> Vec<Case> {
    let (tenant, idle, user) = (id("tenant", 0), id("goal", IDLE), id("user", IDLE % USERS));
    let (run, message) = (id("run", LAST_RUNS + IDLE), id("message", IDLE));
    let (thread, items) = (&["messages_agentable_id_seq_key"], &["knowledge_by_owner"]);
    let list = |what, args: &[&str], reads| case("store::knowledge_item::list", what, args, items, reads);
    vec![
        case("store::history::list", "", &[&tenant, &idle, "0", "100"], &["history_pkey"], [20, 60]),
        case("store::message::get", "", &[&tenant, &message], &["messages_pkey"], [10, 30]),
        case("store::message::list", "", &[&tenant, &idle, "1000", "100"], thread, [60, 150]),
        case("store::run::get", "", &[&tenant, &run], &["runs_pkey"], [10, 30]),
        case("store::run::lock_for_cancel", "", &[&tenant, &run], &["runs_pkey"], [10, 30]),
        case(
            "store::cost::spent",
            "",
            &[&idle, &run],
            &["run_locks_pkey", "runs_pkey", "spending_pkey"],
            [10, 30],
        ),
        case("store::cost::calls", "", &[&tenant, &run], &["model_calls_pkey"], [10, 20]),
        case(
            "store::run::cancel",
            "",
            &[&id("run", OPEN_RUNS + DRIVEN), "1", &tenant],
            &["runs_pkey"],
            [10, 40],
        ),
        case("store::idempotency::earlier", "", &[&tenant, "'key 7'"], &["idempotency_keys_pkey"], [5, 10]),
        case("store::agentable::get", "", &[&tenant, &idle, "'goal'"], &["agentables_pkey"], [5, 20]),
        case(
            "store::agentable::list_of_user",
            "of a user with ten",
            &[&tenant, &user, "'goal'", "null", "21", "false", "'{}'", "'{}'"],
            // Of ten, either index will do; agentables_by_user_kind is for users with thousands of tasks.
            &[],
            [60, 120],
        ),
        list("notes", &[&tenant, &idle, "'note'", "null", "21"], [10, 20]),
        list("memories", &[&tenant, &user, "'memory'", "null", "21"], [50, 60]),
        case(
            "store::knowledge_item::best_matches",
            "",
            &[&tenant, &user, "'memory'", "'which trains'", "5", "200"],
            items,
            [60, 60],
        ),
        case(
            "store::health::request::forget_keys",
            "none is old",
            &["86400", "5000"],
            &["idempotency_keys_by_age"],
            [5, 20],
        ),
        case("store::api_key::like", "", &["'{hou_00000007}'"], &["api_keys_by_prefix"], [5, 10]),
    ]
}

/// Queries of files.
fn files() -> Vec<Case> {
    let tenant = id("tenant", 0);
    // One of those with files.
    let (filed, files) = (id("goal", 10), &["workspace_files_pkey"]);
    vec![
        case("store::workspace_file::list", "", &[&tenant, &filed, "''", "101"], files, [10, 15]),
        case("store::workspace_file::folder::find", "", &[&tenant, &filed, "'notes/1.md'"], files, [5, 10]),
        case(
            "store::workspace_file::present",
            "",
            &[&tenant, &filed, "'notes/1.md'", "array['notes']"],
            files,
            [10, 15],
        ),
    ]
}

/// Every case.
pub(crate) fn all() -> Vec<Case> {
    let driven = [writes(), watching(), streams::all(), followed(), asked(), files(), agents()];
    let archived = [archived::closed(), archived::found(), crate::conversation::all()];
    let others = [
        long::sent(),
        long::unnamed(),
        begun::all(),
        batch::batches(),
        phone::all(),
        focus::all(),
        triggers::all(),
        operate::all(),
        retention::all(),
    ];
    driven.into_iter().chain(archived).chain(others).flatten().collect()
}
