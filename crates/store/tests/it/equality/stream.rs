//! Streams: what is read is what was published, and what a stream of stored events only would have.

use houston_domain::event::Committed;
use houston_domain::id::AgentableId;
use serde_json::json;

use super::Scene;
use super::rows::without_ids;
use super::twin::Twin;

impl Scene<'_> {
    /// Asserts that a stream reads the events that were published when they were committed. Metadata of a message is
    /// that of now.
    pub(super) async fn assert_read(&self, goal: AgentableId, published: &[Committed]) {
        let Some(first) = published.first() else { return };
        let count = i64::try_from(published.len()).unwrap();
        let requests = self.store.tenant(self.side.test.tenant);
        let read = requests.events_after(goal, first.seq - 1, count).await.unwrap();
        let rendered = |events: &[Committed]| -> Vec<_> {
            let content = |event: &Committed| event.body.as_ref().map(|body| body.content.clone());
            events.iter().map(|of| (of.seq, of.run_id, of.at, of.event.clone(), content(of))).collect()
        };
        assert_eq!(rendered(&read), rendered(published));
    }

    /// The whole stream of a goal, in pages of any size, without ids and times; with the iteration that is open at some of
    /// its positions.
    pub(super) async fn stream(&self, twin: &Twin, seed: u64) -> Vec<String> {
        let (requests, mut events) = (self.store.tenant(self.side.test.tenant), Vec::<Committed>::new());
        let Some(agentable) = twin.agentable else { return Vec::new() };
        let all = requests.events_after(agentable, 0, 10_000).await.unwrap();
        for page in [1, 3, 7, 100].into_iter().cycle() {
            let after = events.last().map_or(0, |event| event.seq);
            let read = requests.events_after(agentable, after, page).await.unwrap();
            if read.is_empty() {
                break;
            }
            events.extend(read);
        }
        assert_eq!(events, all);
        let thread = requests.thread_events_before(agentable, i64::MAX, 10_000).await.unwrap();
        let named = all.iter().rev().filter(|event| event.body.is_some()).cloned();
        assert_eq!(thread, named.collect::<Vec<_>>());
        let mut runs = Vec::new();
        let mut rendered = Vec::new();
        for (nth, event) in (seed..).zip(all) {
            if runs.last() != Some(&event.run_id) {
                runs.push(event.run_id);
            }
            let mut open = None;
            if nth.is_multiple_of(8) {
                let found = requests.open_iteration_at(agentable, event.seq).await.unwrap();
                open = found.map(|open| (open.number, open.thought_committed, open.message_committed));
            }
            let mut json = serde_json::to_value(&event.event).unwrap();
            for (name, value) in json.as_object_mut().unwrap() {
                if name.ends_with("_id") || name.ends_with("_at") {
                    *value = json!("any");
                }
            }
            rendered.push(without_ids(&format!(
                "{} {} {json} {:?} {open:?}",
                event.seq,
                runs.len(),
                event.body
            )));
        }
        rendered
    }
}
