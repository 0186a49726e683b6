use houston_domain::agent::budget::Spent;
use houston_domain::id::UserId;
use houston_domain::model::Usage;
use houston_store::Error;
use houston_store::cost::{Cost, ModelCall};
use houston_store::step::{Commit, Step, RunTransition};

use crate::fresh::Fresh;
use crate::step::{answer, done};

fn call(cost: Option<&str>) -> Option<ModelCall> {
    let usage = Usage { input_tokens: 100, output_tokens: 20, cache_read_tokens: 30, ..Usage::default() };
    let cost = cost.map(|cost| cost.parse().unwrap());
    Some(ModelCall {
        provider: "openai".into(),
        model: "gpt-5-mini".into(),
        iteration: 1,
        usage: Usage { cost, ..usage },
        reported: cost.is_some(),
    })
}

fn known(cost: &str, unpriced_calls: i32) -> Cost {
    Cost { known: Some(cost.parse().unwrap()), unpriced_calls }
}

impl Fresh {
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
        [
            store.run(self.tenant, run).await.unwrap().cost,
            store.agentable(self.tenant, "goal", self.goal).await.unwrap().cost,
            store.user(self.tenant, self.user()).await.unwrap().cost,
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_counted_once_however_often_its_step_is_sent() {
    let fresh = Fresh::start().await;
    fresh.post("hi").await;
    let claimed = fresh.claim().await.unwrap();
    assert_eq!(fresh.costs(claimed.run).await, [Cost::NOTHING; 3]);
    let step = Step { call: call(Some("0.000123")), ..answer(&fresh, &claimed, "hello") };
    done(fresh.store.commit(&claimed.fence, &step).await.unwrap());
    for _ in 0..3 {
        assert_eq!(fresh.store.commit(&claimed.fence, &step).await.unwrap(), Commit::Landed);
    }
    assert_eq!(fresh.costs(claimed.run).await, [known("0.000123", 0); 3]);
    let calls = fresh.store.model_calls(fresh.tenant, claimed.run).await.unwrap();
    assert_eq!((calls.len(), &calls[0].call), (1, step.call.as_ref().unwrap()));

    // A zombie's call is nobody's.
    let late = Step { call: call(Some("5")), ..answer(&fresh, &claimed, "again") };
    assert!(matches!(fresh.store.commit(&claimed.fence, &late).await, Err(Error::Fenced)));
    assert_eq!(fresh.costs(claimed.run).await, [known("0.000123", 0); 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_is_counted_beside_the_sum_and_never_shown_as_nothing() {
    let fresh = Fresh::start().await;
    fresh.post("hi").await;
    let claimed = fresh.claim().await.unwrap();
    let go_on = || RunTransition::Continue { read: false, event: None };
    let unknown = Step { call: call(None), ..fresh.step(&claimed, go_on()) };
    done(fresh.store.commit(&claimed.fence, &unknown).await.unwrap());
    assert_eq!(fresh.costs(claimed.run).await, [Cost { known: None, unpriced_calls: 1 }; 3]);
    let spent = fresh.store.spent(fresh.goal, claimed.run).await.unwrap();
    assert!(spent.run.unwrap_or_default().is_zero() && spent.user_today.is_none());

    // A step without a call is none.
    done(fresh.store.commit(&claimed.fence, &fresh.step(&claimed, go_on())).await.unwrap());
    for cost in ["0.1", "0.2"] {
        let step = Step { call: call(Some(cost)), ..fresh.step(&claimed, go_on()) };
        done(fresh.store.commit(&claimed.fence, &step).await.unwrap());
    }
    assert_eq!(fresh.costs(claimed.run).await, [known("0.3", 1); 3]);
    let three = Some("0.3".parse().unwrap());
    let spent = fresh.store.spent(fresh.goal, claimed.run).await.unwrap();
    assert_eq!(spent, Spent { run: three, agentable: three, user_today: three });
}

#[tokio::test(flavor = "multi_thread")]
async fn days_are_kept_apart_and_other_tenants_see_nothing() {
    let fresh = Fresh::start().await;
    fresh.post("hi").await;
    let claimed = fresh.claim().await.unwrap();
    let step = Step { call: call(Some("0.25")), ..answer(&fresh, &claimed, "hello") };
    done(fresh.store.commit(&claimed.fence, &step).await.unwrap());
    fresh.sql("update houston.spending set day = day - 1");
    let before = fresh.store.spent(fresh.goal, claimed.run).await.unwrap();
    assert_eq!((before.user_today, before.agentable), (None, Some("0.25".parse().unwrap())));

    fresh.post("again").await;
    let claimed = fresh.claim().await.unwrap();
    let step = Step { call: call(Some("0.5")), ..answer(&fresh, &claimed, "hello") };
    done(fresh.store.commit(&claimed.fence, &step).await.unwrap());
    let (total, days) = fresh.store.user_costs(fresh.tenant, fresh.user(), 10).await.unwrap();
    assert_eq!(total, known("0.75", 0));
    let costs: Vec<Cost> = days.iter().map(|day| day.cost).collect();
    assert_eq!(costs, [known("0.5", 0), known("0.25", 0)]);
    assert!(days[0].day > days[1].day);

    let other = fresh.store.ensure_tenant(fresh.ids.next(), "other").await.unwrap();
    assert!(matches!(fresh.store.model_calls(other, claimed.run).await, Err(Error::NotFound { .. })));
    assert!(matches!(fresh.store.user_costs(other, fresh.user(), 10).await, Err(Error::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_comes_and_goes_with_the_transaction_of_its_records() {
    let fresh = Fresh::start().await;
    fresh.post("hi").await;
    let claimed = fresh.claim().await.unwrap();
    let step =
        Step { call: call(Some("1")), ..fresh.step(&claimed, RunTransition::Continue { read: false, event: None }) };
    drop(fresh.store.begin_fenced(&claimed.fence).await.unwrap());
    assert_eq!(fresh.costs(claimed.run).await, [Cost::NOTHING; 3]);
    let tx = fresh.store.begin_fenced(&claimed.fence).await.unwrap();
    done(tx.commit(&step).await.unwrap());
    assert_eq!(fresh.costs(claimed.run).await, [known("1", 0); 3]);
}
