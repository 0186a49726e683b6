//! Schedules and other triggers of a user: when they fire, what they do, and what became of the last times.

use askama::Template;
use axum::Form;
use axum::extract::Path;
use axum::http::Method;
use futures_util::future::try_join;
use houston_domain::scope::Scope;
use houston_protocol::page::Page;
use houston_protocol::run_list::ListedRunResponse;
use houston_protocol::time::Time;
use houston_protocol::trigger::{
    TriggerFiring, TriggerFiringList, TriggerList, TriggerResponse, TriggerThen, TriggerWhen, UpdateTrigger,
};
use serde::Deserialize;

use crate::failure::{Answer, html};
use crate::runs;
use crate::shell::{SCHEDULES, Shell, USERS};
use crate::show::{self, Status, segment};
use crate::viewer::Viewer;

/// When it is due next.
pub(crate) fn due(of: &TriggerResponse) -> Option<Time> {
    of.next_at.filter(|_| of.enabled)
}

/// When it fires, in words.
pub(crate) fn when(of: &TriggerWhen) -> String {
    match of {
        TriggerWhen::Cron { cron, zone, .. } => format!("at {cron} ({zone})"),
        TriggerWhen::Keyword { words, regex } => {
            let regex = regex.as_ref().map(|of| format!("/{of}/"));
            let all = words.iter().map(|word| format!("“{word}”")).chain(regex);
            format!("when the user writes {}", all.collect::<Vec<_>>().join(" or "))
        }
        TriggerWhen::Event { topics, kind, agentable_id, condition } => {
            let mut text = format!("at {}", topics.join(", "));
            let limits = [("of kind", kind), ("of", agentable_id), ("if", condition)];
            for (word, limit) in limits {
                text.extend(limit.as_ref().map(|limit| format!(" {word} {limit}")));
            }
            text
        }
    }
}

#[derive(Template)]
#[template(path = "schedules.html")]
struct Schedules {
    shell: Shell,
    rows: Vec<runs::Row>,
    retries_href: String,
    /// Why no runs are listed.
    missing: &'static str,
    triggers: Vec<TriggerResponse>,
}

/// `GET {prefix}/schedules`.
pub(crate) async fn list(viewer: Viewer) -> Answer {
    let due: TriggerList = viewer.api.get("/v1/triggers").await?;
    let operates = viewer.may(Scope::Operate);
    let retried: Vec<ListedRunResponse> = match operates {
        true => viewer.api.get::<Page<_>>("/v1/runs?status=retrying&limit=20").await?.data,
        false => Vec::new(),
    };
    let retries = if operates { viewer.path("/runs?q=status:retrying") } else { String::new() };
    Ok(html(&Schedules {
        shell: viewer.shell(SCHEDULES, "Retries and schedules").live(),
        rows: retried.into_iter().map(|of| runs::Row::of(of.run)).collect(),
        retries_href: retries,
        missing: match operates {
            true => "Runs whose attempt failed are listed here with the time of the next.",
            false => "A list of them needs the scope operate.",
        },
        triggers: due.data,
    }))
}

#[derive(Template)]
#[template(path = "trigger.html")]
struct Trigger {
    shell: Shell,
    of: TriggerResponse,
    can_change: bool,
    firings: Vec<TriggerFiring>,
}

/// `GET {prefix}/triggers/{id}`.
pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Answer {
    let path = format!("/v1/triggers/{}", segment(&id));
    let firings = format!("{path}/firings");
    let (of, firings) =
        try_join(viewer.api.get::<TriggerResponse>(&path), viewer.api.get::<TriggerFiringList>(&firings))
            .await?;
    let shell = viewer.shell(USERS, show::line(&of.name, 80)).live();
    let can_change = viewer.may(Scope::Post);
    Ok(html(&Trigger { shell, of, can_change, firings: firings.data }))
}

/// What a trigger does.
struct Effect<'t> {
    /// In a few words.
    what: String,
    /// For whom.
    agentable: &'t str,
    /// The text that is read then.
    text: &'t str,
}

fn then(of: &TriggerThen) -> Effect<'_> {
    match of {
        TriggerThen::Tell { agentable_id, instructions } => {
            Effect { what: "posts to an agent".to_owned(), agentable: agentable_id, text: instructions }
        }
        TriggerThen::Task { agentable_id, title, instructions, .. } => {
            let what = format!("starts a task: {}", show::line(title, 120));
            Effect { what, agentable: agentable_id, text: instructions }
        }
        TriggerThen::Plan { agentable_id, .. } => {
            Effect { what: "starts a plan".to_owned(), agentable: agentable_id, text: "" }
        }
    }
}

/// What became of one time.
fn outcome(of: &TriggerFiring) -> Status {
    match &of.refusal {
        Some(refusal) => Status { text: show::line(refusal, 160), tone: "warn" },
        None => Status { text: "fired".to_owned(), tone: "good" },
    }
}

/// The page of a run or an agentable; empty: there is none.
fn made_href(prefix: &str, id: &str) -> String {
    match id.rsplit_once('_') {
        None => String::new(),
        Some(("run", _)) => format!("{prefix}/runs/{id}"),
        Some((kind, _)) => format!("{prefix}/threads/{kind}/{id}"),
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Switched {
    enabled: bool,
}

/// `POST {prefix}/triggers/{id}/enabled`.
pub(crate) async fn switch(viewer: Viewer, Path(id): Path<String>, Form(to): Form<Switched>) -> Answer {
    let here = format!("/triggers/{}", segment(&id));
    let body = UpdateTrigger { enabled: Some(to.enabled), ..UpdateTrigger::default() };
    viewer.change(Method::PATCH, &format!("/v1{here}"), &body, &here).await
}

#[cfg(test)]
mod tests {
    use houston_protocol::trigger::TriggerMisfire;

    use super::*;

    #[test]
    fn triggers_say_when_they_fire() {
        let (cron, zone) = ("30 7 * * 1-5".to_owned(), "Europe/Berlin".to_owned());
        let at = TriggerWhen::Cron { cron, zone, misfire: TriggerMisfire::Once };
        assert_eq!(when(&at), "at 30 7 * * 1-5 (Europe/Berlin)");
        let words =
            TriggerWhen::Keyword { words: vec!["stop".into(), "halt".into()], regex: Some("no+".into()) };
        assert_eq!(when(&words), "when the user writes “stop” or “halt” or /no+/");
        let event = TriggerWhen::Event {
            topics: vec!["run.*".into()],
            kind: Some("goal".into()),
            agentable_id: None,
            condition: Some("event.data.status == \"failed\"".into()),
        };
        assert_eq!(when(&event), "at run.* of kind goal if event.data.status == \"failed\"");
    }
}
