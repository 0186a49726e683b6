//! Batches of posts, claims and steps: what they touch grows with their items alone.

use crate::case::{Case, IDLE, WAITING, WORKER, claimed, id};

/// The settings of the connections of batches, see `batcher.rs` of the store.
pub(crate) const SETTINGS: &str =
    "set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_seqscan = off;
    set local enable_bitmapscan = off; set local enable_material = off; set local jit = off;\n";

/// Posts and claims of one batch.
const POSTS: u32 = 8;

fn batch(
    name: &'static str,
    when: &'static str,
    before: String,
    arguments: &[&str],
    [rows, blocks]: [u64; 2],
) -> Case {
    let arguments = [":'batch'"].iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
    Case { name, when, before, arguments, uses: &["run_locks_pkey"], rows, blocks }
}

/// Claims of eight agentables that wait.
fn claims() -> [Case; 2] {
    let waiting: Vec<String> = (0..POSTS).map(|nth| id("goal", WAITING + nth)).collect();
    let claims = format!(
        "{SETTINGS}select jsonb_agg(jsonb_build_object(
                'n', nth, 'agentable_id', l.agentable_id, 'version', l.xmin::text, 'worker_id', {}, 'token', gen_random_uuid(),
                'slots', jsonb_build_array(100 + nth), 'message_seq', l.last_seq, 'message_id', gen_random_uuid(),
                'read', 1, 'read_to', l.last_seq, 'stays_awake', false, 'schedules_session', true)) as batch
           from unnest(array[{}]::uuid[]) with ordinality as g (id, nth)
           join houston.run_locks l on l.agentable_id = g.id \\gset\n",
        id("worker", WORKER),
        waiting.join(", ")
    );
    let most = u64::from(POSTS);
    [
        batch(
            "store::claim::write::claims",
            "of eight that wait",
            claims,
            &["1800"],
            [20 * most, 200 * most],
        ),
        Case {
            name: "store::claim::read::candidates",
            when: "of eight that wait",
            before: SETTINGS.to_owned(),
            arguments: [
                format!("array[{}]::uuid[]", waiting.join(", ")),
                format!("array_fill({}::uuid, array[{POSTS}])", id("worker", WORKER)),
            ]
            .into_iter()
            // Of the context: notes, and what the prompt has of the user and of sessions.
            .chain(
                ["10", "500", "10", "200", "20", "1000", "10", "200", "5", "1000", "'{}'", "'{}'", "20"]
                    .map(str::to_owned),
            )
            .chain(["10", "100", "262144", "array['goal']"].map(str::to_owned))
            .chain(["uuid", "text"].map(|of| format!("array_fill(null::{of}, array[{POSTS}])")))
            .chain([format!("array_fill(true, array[{POSTS}])"), "true".to_owned()])
            .collect(),
            uses: &["run_locks_pkey", "runs_held", "messages_agentable_id_seq_key", "history_pkey"],
            // With the contexts of the runs: 157 blocks each, and some of the catalogue where it is read anew.
            rows: 60 * most,
            blocks: 170 * most,
        },
    ]
}

pub(crate) fn batches() -> Vec<Case> {
    let goals: Vec<String> = (0..POSTS).map(|nth| id("goal", IDLE + nth)).collect();
    let posts = format!(
        "{SETTINGS}select jsonb_agg(jsonb_build_object(
                'n', nth, 'tenant_id', l.tenant_id, 'agentable_id', l.agentable_id, 'kind', 'goal', 'message_id', gen_random_uuid(),
                'run_id', gen_random_uuid(), 'content', 'hi', 'metadata', '{{}}'::jsonb, 'key', 'batch ' || nth,
                'request_sha256', '\\x00', 'joins', true)) as batch
           from unnest(array[{}]::uuid[]) with ordinality as g (id, nth)
           join houston.run_locks l on l.agentable_id = g.id \\gset\n",
        goals.join(", ")
    );
    let most = u64::from(POSTS);
    let [write, read] = claims();
    vec![
        batch(
            "store::message::batch::post",
            "to eight with nothing to do",
            posts,
            &["10", "10000"],
            [20 * most, 200 * most],
        ),
        batch("store::step::statement::write", "an answer that ends", step("[]", "[]"), &["10"], [30, 200]),
        batch(
            "store::step::statement::write_with_tools",
            "an intent",
            step(r#"[{"call_id": "1", "name": "fetch", "effect": "read"}]"#, "[]"),
            &["10"],
            [30, 200],
        ),
        batch(
            "store::step::statement::write_with_tools",
            "a response",
            step("[]", r#"[{"call_id": "1", "response": {"success": true}}]"#),
            &["10"],
            [30, 200],
        ),
        write,
        read,
    ]
}

/// A step that answers and ends its run, with these intents and responses.
fn step(intents: &str, responses: &str) -> String {
    format!(
        "{}{SETTINGS}select jsonb_build_array(jsonb_build_object(
                'n', 0, 'agentable_id', l.agentable_id, 'epoch', l.epoch, 'fence', l.epoch, 'token', l.run_token,
                'write_id', gen_random_uuid(), 'run_id', l.run_id,
                'entries', '[{{\"role\": \"assistant\", \"content\": []}}]'::jsonb,
                'events', '[{{\"message_id\": null, \"data\": {{}}}}]'::jsonb,
                'intents', (select coalesce(jsonb_agg(i || jsonb_build_object('message_id', gen_random_uuid())), '[]')
                              from jsonb_array_elements('{intents}'::jsonb) i),
                'responses', '{responses}'::jsonb, 'cells', '[]'::jsonb,
                'messages', jsonb_build_array(jsonb_build_object(
                    'event', 1, 'id', gen_random_uuid(), 'source', 'agent', 'message_type', 'text', 'content', 'hi',
                    'metadata', '{{}}'::jsonb)),
                'is_progress', true, 'forgives_deaths', true, 'releases', true, 'ends', true, 'wakes', false,
                'frees_a_slot', true, 'status', 'completed', 'iterations', 1, 'used', array[1, 1, 0, 0, 0],
                'call', jsonb_build_object('provider', 'fake', 'model', 'model', 'iteration', 1,
                    'tokens', array[1, 1, 0, 0, 0], 'cost', '0.0001', 'reported', true))) as batch
           from houston.run_locks l where l.agentable_id = {} \\gset\n",
        claimed(WAITING),
        id("goal", WAITING)
    )
}
