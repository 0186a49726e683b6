//! Questions: who answers them, when they expire, and who sees them.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn of_many_answers_exactly_one_is_accepted() {
    let test = TestStore::start().await;
    let (_, id) = test.asked(test.question(Expires::Never)).await;
    let answers =
        (0..20).map(async |n| (n, test.requests().answer_question(id, &json!(n), None).await.unwrap()));
    let (mut accepted, mut late) = (Vec::new(), Vec::new());
    for (n, answered) in join_all(answers).await {
        match answered {
            Answered::Now(asked) => {
                assert_eq!(asked.question.answer, Some(json!(n)));
                accepted.push(json!(n));
            }
            Answered::Closed(asked) => late.extend(asked.question.answer),
        }
    }
    assert_eq!((accepted.len(), late.len()), (1, 19));
    assert!(late.iter().all(|late| *late == accepted[0]), "the others learn what was decided");
    assert_eq!(test.events().await, ["question_asked", "run_waiting", "question_closed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_supersedes_its_own_question() {
    let test = TestStore::start().await;
    let (_, id) = test.asked(test.question(Expires::Never)).await;
    test.post("Do something else").await;
    let resumed = test.claim().await.unwrap();
    let mut step = test.step(&resumed, RunTransition::Continue { read: true, event: None });
    step.questions = Some(Box::new(QuestionChanges { superseded: vec![id], ..QuestionChanges::default() }));
    let done = test.write(&resumed, &step).await;
    assert!(matches!(&done.events[..], [of] if matches!(of.event, Event::QuestionClosed(_))));
    assert_eq!(state(&test, id).await, QuestionState::Superseded);
}

#[tokio::test(flavor = "multi_thread")]
async fn question_expires_once_and_wakes_its_run() {
    let test = TestStore::start().await;
    let (first, id) = test.asked(test.question(Expires::Now)).await;
    let (runs, requests, answer) = (test.runs(), test.requests(), json!(true));
    let (one, late, other) = tokio::join!(
        runs.expire_questions(10),
        requests.answer_question(id, &answer, None),
        runs.expire_questions(10)
    );
    let (expired, late) = (one.unwrap() + other.unwrap(), late.unwrap());
    assert!(matches!(late, Answered::Closed(_)), "an answer after the time does not count: {late:?}");
    assert!(expired <= 1, "the answer or one of the sweeps closed it");
    let question = test.requests().question(id).await.unwrap().question;
    assert_eq!(question.state, QuestionState::Expired);
    assert_eq!(question.outcome(), Some(&json!(false)), "the default value holds");
    assert_eq!(test.claim().await.unwrap().run, first.run);
    assert_eq!(
        test.events().await[..3],
        ["question_asked", "run_waiting", "question_closed"].map(str::to_owned)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_one_agentable_expire_together() {
    let test = TestStore::start().await;
    test.post("Ask").await;
    let claimed = test.claim().await.unwrap();
    let mut step = test.wait(&claimed, None, &[]);
    step.questions = asks((0..5).map(|_| test.question(Expires::Now)));
    test.write(&claimed, &step).await;
    assert_eq!(test.runs().expire_questions(3).await.unwrap(), 3, "a page");
    assert_eq!(test.runs().expire_questions(3).await.unwrap(), 2);
    assert_eq!(test.runs().expire_questions(3).await.unwrap(), 0);
    assert_eq!(test.events().await.iter().filter(|of| *of == "question_closed").count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn question_of_another_tenant_is_not_found() {
    let test = TestStore::start().await;
    let (_, id) = test.asked(test.question(Expires::Never)).await;
    let other = test.store.operator().ensure_tenant(test.ids.next(), "other").await.unwrap();
    let requests = test.store.tenant(other);
    assert!(matches!(requests.question(id).await, Err(Error::NotFound { .. })));
    let answer = requests.answer_question(id, &json!(true), None).await;
    assert!(matches!(answer, Err(Error::NotFound { .. })), "{answer:?}");
    assert!(requests.open_questions(None, None, None, 10).await.unwrap().is_empty());
    assert_eq!(state(&test, id).await, QuestionState::Open);
}
