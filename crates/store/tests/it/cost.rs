use houston_domain::budget::{DayCost, Spent};
use houston_domain::id::UserId;
use houston_domain::model::Usage;
use houston_domain::step::ModelCall;
use houston_domain::step::{RunTransition, Step};
use houston_store::Error;
use houston_store::cost::Cost;
use houston_store::step::Commit;
use sqlx::{Connection as _, PgConnection};

use crate::step::{answer, done};
use crate::test_store::TestStore;

fn call(cost: Option<&str>) -> Option<ModelCall> {
    let usage = Usage { input_tokens: 100, output_tokens: 20, cache_read_tokens: 30, ..Usage::default() };
    let cost = cost.map(|cost| cost.parse().unwrap());
    Some(ModelCall {
        provider: "openai".into(),
        model: "gpt-5-mini".into(),
        iteration: 1,
        usage: Usage { cost, ..usage },
        estimated: false,
        reported: cost.is_some(),
        timing: None,
    })
}

fn sum(cost: &str, unpriced_calls: i32) -> Cost {
    Cost { total: Some(cost.parse().unwrap()), unpriced_calls }
}

fn of_day(day: &DayCost) -> Cost {
    Cost { total: day.cost, unpriced_calls: day.unpriced_calls }
}

impl TestStore {
    fn user(&self) -> UserId {
        UserId(
            self.sql("select user_id from houston.agentables where kind = 'goal' limit 1")
                .trim()
                .parse()
                .unwrap(),
        )
    }

    async fn costs(&self, run: houston_domain::id::RunId) -> [Cost; 3] {
        let store = &self.store;
        let run = store.tenant(self.tenant).run(run).await.unwrap();
        [
            Cost { total: run.cost, unpriced_calls: run.unpriced_calls },
            store.tenant(self.tenant).agentable("goal", self.goal).await.unwrap().cost,
            store.tenant(self.tenant).user(self.user()).await.unwrap().cost,
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn model_call_is_counted_once_per_step() {
    let test = TestStore::start().await;
    test.post("hi").await;
    let claimed = test.claim().await.unwrap();
    assert_eq!(test.costs(claimed.run).await, [Cost::NOTHING; 3]);
    let step = Step { call: call(Some("0.000123")), ..answer(&test, &claimed, "hello") };
    done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    for _ in 0..3 {
        assert_eq!(test.runs().commit(&claimed.fence, &step).await.unwrap(), Commit::AlreadyCommitted);
    }
    assert_eq!(test.costs(claimed.run).await, [sum("0.000123", 0); 3]);
    let calls = test.requests().model_calls(claimed.run).await.unwrap();
    assert_eq!((calls.len(), &calls[0].call), (1, step.call.as_ref().unwrap()));

    // The call of a zombie is not counted.
    let late = Step { call: call(Some("5")), ..answer(&test, &claimed, "again") };
    assert!(matches!(test.runs().commit(&claimed.fence, &late).await, Err(Error::Fenced)));
    assert_eq!(test.costs(claimed.run).await, [sum("0.000123", 0); 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn further_calls_of_a_step_are_counted_once_each() {
    let test = TestStore::start().await;
    test.post("hi").await;
    let claimed = test.claim().await.unwrap();
    let cut = |cost| ModelCall { estimated: true, reported: false, ..call(cost).unwrap() };
    let more_calls = vec![(test.ids.next(), cut(Some("0.01"))), (test.ids.next(), cut(None))];
    let step = Step { call: call(Some("0.1")), more_calls, ..answer(&test, &claimed, "hello") };
    done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    assert_eq!(test.runs().commit(&claimed.fence, &step).await.unwrap(), Commit::AlreadyCommitted);
    assert_eq!(test.costs(claimed.run).await, [sum("0.11", 1); 3]);
    let calls = test.requests().model_calls(claimed.run).await.unwrap();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls.iter().filter(|one| one.call.estimated).count(), 2);
    let (_, days) = test.requests().user_costs(test.user(), 5).await.unwrap();
    assert_eq!((days[0].model_calls, of_day(&days[0])), (3, sum("0.11", 1)));
    // Nothing is counted of a step that a zombie sends.
    let late =
        Step { more_calls: vec![(test.ids.next(), cut(Some("5")))], ..answer(&test, &claimed, "again") };
    assert!(matches!(test.runs().commit(&claimed.fence, &late).await, Err(Error::Fenced)));
    assert_eq!(test.costs(claimed.run).await, [sum("0.11", 1); 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unpriced_calls_are_counted_and_never_summed_as_zero() {
    let test = TestStore::start().await;
    test.post("hi").await;
    let claimed = test.claim().await.unwrap();
    let go_on = || RunTransition::Continue { read: false, event: None };
    let unknown = Step { call: call(None), ..test.step(&claimed, go_on()) };
    done(test.runs().commit(&claimed.fence, &unknown).await.unwrap());
    assert_eq!(test.costs(claimed.run).await, [Cost { total: None, unpriced_calls: 1 }; 3]);
    let spent = test.runs().spent(test.goal, claimed.run).await.unwrap();
    assert!(spent.run.unwrap_or_default().is_zero() && spent.user_today.is_none());

    // A step without a model call counts none.
    done(test.runs().commit(&claimed.fence, &test.step(&claimed, go_on())).await.unwrap());
    for cost in ["0.1", "0.2"] {
        let step = Step { call: call(Some(cost)), ..test.step(&claimed, go_on()) };
        done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    }
    assert_eq!(test.costs(claimed.run).await, [sum("0.3", 1); 3]);
    let three = Some("0.3".parse().unwrap());
    let spent = test.runs().spent(test.goal, claimed.run).await.unwrap();
    assert_eq!(spent, Spent { run: three, agentable: three, user_today: three });
}

#[tokio::test(flavor = "multi_thread")]
async fn costs_are_separate_by_day_and_tenant() {
    let test = TestStore::start().await;
    test.post("hi").await;
    let claimed = test.claim().await.unwrap();
    let step = Step { call: call(Some("0.25")), ..answer(&test, &claimed, "hello") };
    done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    test.sql("update houston.spending set day = day - 1");
    let before = test.runs().spent(test.goal, claimed.run).await.unwrap();
    assert_eq!((before.user_today, before.agentable), (None, Some("0.25".parse().unwrap())));

    test.post("again").await;
    let claimed = test.claim().await.unwrap();
    let step = Step { call: call(Some("0.5")), ..answer(&test, &claimed, "hello") };
    done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    let (total, days) = test.requests().user_costs(test.user(), 10).await.unwrap();
    assert_eq!(total, sum("0.75", 0));
    let costs: Vec<Cost> = days.iter().map(of_day).collect();
    assert_eq!(costs, [sum("0.5", 0), sum("0.25", 0)]);
    assert!(days[0].day > days[1].day);

    let other = test.store.operator().ensure_tenant(test.ids.next(), "other").await.unwrap();
    assert!(matches!(test.store.tenant(other).model_calls(claimed.run).await, Err(Error::NotFound { .. })));
    assert!(matches!(
        test.store.tenant(other).user_costs(test.user(), 10).await,
        Err(Error::NotFound { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn model_call_is_counted_only_with_its_transaction() {
    let test = TestStore::start().await;
    test.post("hi").await;
    let claimed = test.claim().await.unwrap();
    let step = Step {
        call: call(Some("1")),
        ..test.step(&claimed, RunTransition::Continue { read: false, event: None })
    };
    drop(test.runs().begin_fenced(&claimed.fence).await.unwrap());
    assert_eq!(test.costs(claimed.run).await, [Cost::NOTHING; 3]);
    let tx = test.runs().begin_fenced(&claimed.fence).await.unwrap();
    done(tx.commit(&step).await.unwrap());
    assert_eq!(test.costs(claimed.run).await, [sum("1", 0); 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn step_does_not_wait_for_costs_that_another_process_writes() {
    let test = TestStore::start().await;
    test.post("hi").await;
    let claimed = test.claim().await.unwrap();
    // The flush of another process takes its time.
    let mut other = PgConnection::connect(test.database.url()).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    let insert = "insert into houston.spending (user_id, day, tenant_id, cost, model_calls, unpriced_calls)
                  values ($1, (clock_timestamp() at time zone 'UTC')::date, $2, 0.5, 1, 0)";
    sqlx::query(insert).bind(test.user().0).bind(test.tenant.0).execute(&mut *tx).await.unwrap();

    let step = Step { call: call(Some("0.25")), ..answer(&test, &claimed, "hello") };
    done(test.runs().commit(&claimed.fence, &step).await.unwrap());
    tx.commit().await.unwrap();
    let (total, days) = test.requests().user_costs(test.user(), 10).await.unwrap();
    assert_eq!(total, sum("0.75", 0));
    assert_eq!((days.len(), days[0].model_calls), (1, 2));
    let spent = test.runs().spent(test.goal, claimed.run).await.unwrap();
    assert_eq!(spent.user_today, Some("0.75".parse().unwrap()));
}
