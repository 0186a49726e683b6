//! Rate limits: exact over processes and connections, for users and keys; runs that wait for tokens, and what is counted.

use std::time::Duration;

use houston_domain::event::Event;
use houston_domain::id::{AgentableId, ApiKeyId, UserId};
use houston_domain::model::Usage;
use houston_domain::rate::{Quota, RateLimits, TokenQuota, WhenExceeded};
use houston_domain::run::RunStatus;
use houston_domain::step::RunTransition;
use houston_store::claim::{Claim, ClaimRequest, ClaimedRun, CrashPolicy, PutOff, Trial};
use houston_store::idempotency::IdempotencyKey;
use houston_store::rate::{Ask, Standing, Whose};
use houston_store::{Fairness, Store};
use houston_testkit::database::TestDatabase;
use tokio::task::JoinSet;

use crate::fairness::{goals_of, post_to};
use crate::step::{ending, finished};
use crate::test_store::{TestStore, open};

/// Long, so that little comes back while a test runs.
const WINDOW: u32 = 6_000;

const REQUESTS: RateLimits = RateLimits {
    requests: Quota { quota: 20, window_s: WINDOW },
    keys: Quota { quota: 0, window_s: WINDOW },
    tokens: TokenQuota {
        quota: 0,
        window_s: WINDOW,
        floor: 1_000,
        longest_wait_s: 60_000,
        when_exceeded: WhenExceeded::Wait,
    },
};

const TOKENS: RateLimits = RateLimits {
    requests: Quota { quota: 0, window_s: WINDOW },
    tokens: TokenQuota { quota: 30_000, ..REQUESTS.tokens },
    ..REQUESTS
};

fn user_of(test: &TestStore) -> UserId {
    let id = test.sql(&format!("select user_id from houston.agentables where id = '{}'", test.goal.0));
    UserId(id.trim().parse().unwrap())
}

async fn ask(test: &TestStore, store: &Store, key: ApiKeyId, idempotency_key: Option<&str>) -> Standing {
    let idempotency_key = idempotency_key.map(str::to_owned);
    let ask = Ask { whose: Whose::Agentable(test.goal), key, idempotency_key };
    store.tenant(test.tenant).ask_rates(ask).await.unwrap()
}

/// Lets time pass for all limits.
fn pass(database: &TestDatabase, seconds: f64) {
    let ago = format!("make_interval(secs => {seconds})");
    database
        .sql(&format!(
            "update houston.rates set free_at = free_at - {ago};
             update houston.run_locks set next_attempt_at = next_attempt_at - {ago} where next_attempt_at is not null"
        ))
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_clients_of_three_processes_get_the_quota() {
    let test = TestStore::start().await;
    let processes: Vec<Store> =
        (0..3).map(|_| open(test.database.url()).with(|own| own.rates = REQUESTS)).collect();
    let key = ApiKeyId(test.ids.next());
    let mut clients = JoinSet::new();
    for nth in 0..16_usize {
        let (store, tenant, goal) = (processes[nth % 3].clone(), test.tenant, test.goal);
        clients.spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..10 {
                let ask = Ask { whose: Whose::Agentable(goal), key, idempotency_key: None };
                answers.push(store.tenant(tenant).ask_rates(ask).await.unwrap());
            }
            answers
        });
    }
    let answers: Vec<Standing> = clients.join_all().await.into_iter().flatten().collect();
    let accepted = answers.iter().filter(|answer| answer.exceeded.is_none()).count();
    assert_eq!(accepted, 20, "of {}", answers.len());
    let last = answers.last().unwrap();
    let (policy, retry_after) = last.exceeded.unwrap();
    assert_eq!((policy, last.left[0].name, last.left[0].remaining), ("requests", "requests", 0));
    assert!(retry_after <= Duration::from_secs(300), "{retry_after:?}");
    assert!(last.left[0].reset > Duration::from_secs(5_000), "{last:?}");
    pass(&test.database, retry_after.as_secs_f64());
    assert_eq!(ask(&test, &processes[0], key, None).await.exceeded, None, "accepted after Retry-After");
}

#[tokio::test(flavor = "multi_thread")]
async fn used_idempotency_key_is_not_counted() {
    let test = TestStore::start().await;
    let limited = open(test.database.url()).with(|own| own.rates = REQUESTS);
    let key = ApiKeyId(test.ids.next());
    for nth in 0..20_u32 {
        let answer = ask(&test, &limited, key, Some("again")).await;
        assert_eq!((answer.exceeded, answer.left[0].remaining), (None, 19 - nth));
    }
    assert!(ask(&test, &limited, key, Some("again")).await.exceeded.is_some(), "it was not used yet");
    let stored = IdempotencyKey { key: "again", request_sha256: &[7; 32] };
    test.try_post("hello", Some(stored)).await.unwrap();
    let answer = ask(&test, &limited, key, Some("again")).await;
    assert_eq!((answer.exceeded, answer.left[0].remaining), (None, 0));
    let unknown = Ask { whose: Whose::User(UserId(test.ids.next())), key, idempotency_key: None };
    assert_eq!(limited.tenant(test.tenant).ask_rates(unknown).await, None, "no such user");
    let foreign = Ask { whose: Whose::Agentable(test.goal), key, idempotency_key: None };
    assert_eq!(limited.tenant(test.ids.next()).ask_rates(foreign).await, None, "another tenant");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_key_is_refused_is_not_taken_from_the_user() {
    let test = TestStore::start().await;
    let limits = RateLimits { keys: Quota { quota: 2, window_s: WINDOW }, ..REQUESTS };
    let limited = open(test.database.url()).with(|own| own.rates = limits);
    let (key, other) = (ApiKeyId(test.ids.next()), ApiKeyId(test.ids.next()));
    for _ in 0..2 {
        assert_eq!(ask(&test, &limited, key, None).await.exceeded, None);
    }
    for _ in 0..5 {
        let refused = ask(&test, &limited, key, None).await;
        assert_eq!(refused.exceeded.map(|(policy, _)| policy), Some("key"));
        assert_eq!(refused.left.iter().map(|left| left.name).collect::<Vec<_>>(), ["requests", "key"]);
    }
    let answer = ask(&test, &limited, other, None).await;
    assert_eq!((answer.exceeded, answer.left[0].remaining), (None, 17));
}

/// Claims a goal's run with limits of tokens.
async fn claim(test: &TestStore, store: &Store, agentable: AgentableId) -> Claim {
    let request = ClaimRequest {
        agentable,
        worker: test.worker,
        token: test.ids.next(),
        next_message: test.ids.next(),
        crashes: CrashPolicy::default(),
        trial: Trial::None,
        context: None,
    };
    store.runs().claim(request).await.unwrap()
}

fn run(claim: Claim) -> ClaimedRun {
    match claim {
        Claim::Run(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn put_off(claim: Claim) -> PutOff {
    match claim {
        Claim::PutOff(put_off) => *put_off,
        other => panic!("{other:?}"),
    }
}

/// Ends a run that took these tokens.
async fn end(test: &TestStore, store: &Store, claimed: &ClaimedRun, usage: Usage) {
    let end = RunTransition::Terminate {
        event: finished(RunStatus::Completed),
        ending: ending(RunStatus::Completed),
    };
    let mut step = test.step(claimed, end);
    step.usage = usage;
    store.runs().commit(&claimed.fence, &step).await.unwrap();
}

/// Seconds until no token is used any more, once the counts that were sent are written.
async fn ahead(test: &TestStore, expected: std::ops::Range<f64>) {
    let began = std::time::Instant::now();
    let sql = format!(
        "select extract(epoch from free_at - clock_timestamp()) from houston.rates
          where name = 'tokens' and owner_id = '{}'",
        user_of(test).0
    );
    loop {
        let ahead = test.sql(&sql).trim().parse::<f64>();
        if ahead.as_ref().is_ok_and(|ahead| expected.contains(ahead)) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{ahead:?} is not in {expected:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage { input_tokens: input, cache_read_tokens: cached, output_tokens: output, ..Usage::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_counts_what_it_took_without_what_was_cached() {
    let test = TestStore::start().await;
    let limited = open(test.database.url()).with(|own| own.rates = TOKENS);
    test.post("one").await;
    let first = run(claim(&test, &limited, test.goal).await);
    assert_eq!(first.booked, Some(1_000));
    limited.runs().book_tokens(first.user, 1_000).await;
    ahead(&test, 150.0..200.1).await;
    end(&test, &limited, &first, usage(12_000, 10_800, 300)).await;
    // 1,500 tokens are 300 seconds.
    ahead(&test, 250.0..300.1).await;
    test.post("two").await;
    let second = run(claim(&test, &limited, test.goal).await);
    assert_eq!(second.booked, Some(1_500), "what the last one took");
    limited.runs().book_tokens(second.user, 1_500).await;
    ahead(&test, 500.0..600.1).await;
    end(&test, &limited, &second, Usage::default()).await;
    ahead(&test, 200.0..300.1).await;
    assert_eq!(test.sql("select count(*) from houston.runs where booked_tokens > 0").trim(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_beyond_the_quota_waits_its_turn_without_an_attempt() {
    let test = TestStore::start().await;
    let limited = open(test.database.url()).with(|own| own.rates = TOKENS);
    let goals = goals_of(&test, test.goal, 4).await;
    for goal in &goals {
        post_to(&test, *goal, "hello").await.unwrap();
    }
    let long = run(claim(&test, &limited, goals[0]).await);
    limited.runs().book_tokens(long.user, 1_000).await;
    end(&test, &limited, &long, usage(45_000, 0, 0)).await;
    ahead(&test, 8_900.0..9_000.1).await;
    let waiting: Vec<PutOff> =
        [put_off(claim(&test, &limited, goals[1]).await), put_off(claim(&test, &limited, goals[2]).await)]
            .into();
    assert!((2_900.0..3_000.1).contains(&waiting[0].wait.as_secs_f64()), "{waiting:?}");
    let apart = waiting[1].wait.as_secs_f64() - waiting[0].wait.as_secs_f64();
    assert!((5_900.0..6_000.1).contains(&apart), "each has a turn of its own: {waiting:?}");
    let stored = test.sql(&format!(
        "select e.data ->> 'type', e.data ->> 'retry_at' = to_char(k.next_attempt_at, 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'),
                r.attempt, r.status, k.wake, e.seq = k.last_seq
           from houston.events e join houston.run_locks k using (agentable_id) join houston.runs r on r.id = e.run_id
          where e.agentable_id = '{}' and e.data ->> 'type' = 'rate_limited'",
        goals[1].0
    ));
    assert_eq!(stored.trim(), "rate_limited|t|0|queued|t|t");
    assert_eq!(waiting[0].event.event, Event::RateLimited { retry_at: waiting[0].until });
    assert!(matches!(claim(&test, &limited, goals[1]).await, Claim::Nothing), "not yet");
    assert!(test.runs().due(None, 10).await.unwrap().due.iter().all(|due| due.agentable == goals[3]));
    pass(&test.database, waiting[0].wait.as_secs_f64() + 1.0);
    let due = test.runs().due(None, 10).await.unwrap().due;
    assert!(due.iter().any(|due| due.agentable == goals[1]), "{due:?}");
    let first = run(claim(&test, &limited, goals[1]).await);
    assert_eq!((first.attempt, first.failed_attempts, first.booked), (1, 0, None), "it was counted before");
    end(&test, &limited, &first, usage(100, 0, 100)).await;
    assert!(matches!(claim(&test, &limited, goals[2]).await, Claim::Nothing), "its turn has not come");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_tasks_do_not_wait_for_tokens() {
    let test = TestStore::start().await;
    let limited = open(test.database.url()).with(|own| own.rates = TOKENS);
    test.post("hello").await;
    let user = user_of(&test);
    let used = |seconds: f64| {
        test.sql(&format!(
            "insert into houston.rates (owner_id, name, free_at)
             values ('{}', 'tokens', clock_timestamp() + make_interval(secs => {seconds}))
             on conflict (owner_id, name) do update set free_at = excluded.free_at",
            user.0
        ))
    };
    used(1e6);
    let waits = put_off(claim(&test, &limited, test.goal).await);
    assert!(waits.wait <= Duration::from_secs(60_000), "no longer than the longest wait: {waits:?}");
    let run_id = waits.event.run_id;
    test.requests().cancel_run(run_id).await.unwrap();
    let ended = run(claim(&test, &limited, test.goal).await);
    assert!(ended.cancel_seq.is_some());
    end(&test, &limited, &ended, Usage::default()).await;
    let task = AgentableId(test.ids.next());
    test.sql(&format!(
        "insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title)
         select '{0}', tenant_id, user_id, id, 1, 'task', 't' from houston.agentables where id = '{1}';
         insert into houston.run_locks (agentable_id, tenant_id, user_id)
         select id, tenant_id, user_id from houston.agentables where id = '{0}'",
        task.0, test.goal.0
    ));
    used(1e6);
    post_to(&test, task, "hello").await.unwrap();
    assert_eq!(run(claim(&test, &limited, task).await).booked, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_accepted_or_refused_without_tokens() {
    let test = TestStore::start().await;
    let limited = open(test.database.url())
        .with(|own| own.rates = TOKENS)
        .with(|own| own.fairness = Fairness::default());
    test.post("hello").await;
    let before = run(claim(&test, &limited, test.goal).await);
    end(&test, &limited, &before, usage(1_000_000, 0, 0)).await;
    ahead(&test, 60_000.0..66_000.1).await;
    let requests = limited.tenant(test.tenant);
    let asked =
        Ask { whose: Whose::Agentable(test.goal), key: ApiKeyId(test.ids.next()), idempotency_key: None };
    let standing = requests.ask_rates(asked.clone()).await.unwrap();
    assert_eq!((standing.exceeded, standing.left[0].remaining), (None, 0), "messages are accepted");
    let rejects = TokenQuota { when_exceeded: WhenExceeded::Reject, ..TOKENS.tokens };
    let rejecting =
        open(test.database.url()).with(|own| own.rates = RateLimits { tokens: rejects, ..TOKENS });
    let refused = rejecting.tenant(test.tenant).ask_rates(asked).await.unwrap();
    let (policy, wait) = refused.exceeded.unwrap();
    assert!(policy == "tokens" && wait <= Duration::from_secs(60_000), "{refused:?}");
    test.post("again").await;
    assert!(matches!(claim(&test, &rejecting, test.goal).await, Claim::Run(_)), "what was accepted runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_quiet_users_are_forgotten() {
    let test = TestStore::start().await;
    let limited = open(test.database.url()).with(|own| own.rates = REQUESTS);
    let key = ApiKeyId(test.ids.next());
    ask(&test, &limited, key, None).await;
    assert_eq!(test.runs().forget_rates(10).await.unwrap(), 0);
    pass(&test.database, 3_700.0 + f64::from(WINDOW));
    assert_eq!(test.runs().forget_rates(10).await.unwrap(), 1);
    assert_eq!(ask(&test, &limited, key, None).await.left[0].remaining, 19);
}
