//! `houston approvals`: lists what waits for a person, and decides it: tool calls, input that they need, runs that paused,
//! budgets that are reached.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use houston_domain::cell::Cells;
use houston_domain::guard::GrantScope;
use houston_domain::id::QuestionId;
use houston_domain::question::approval::{ApprovalAnswer, Remember};
use houston_domain::question::budget::BudgetAnswer;
use houston_domain::question::input::InputAnswer;
use houston_domain::question::{NewQuestion, QuestionKind};
use houston_protocol::question::{AnswerQuestion, ApprovalLink, CreateApprovalLink, QuestionResponse};
use houston_store::Store;
use houston_store::answer::AskedQuestion;
use reqwest::Method;
use serde_json::{Number, Value, json};

use super::agentable::{Api, at, one_line, print_table};
use super::{Context, Failure, Result};
use crate::output::{print, print_either, print_json};

/// List what waits for a person (tool calls, input they need, paused runs, budgets that are reached), or decide it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    decision: Option<Decision>,
    /// Maximum number of rows
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Decision {
    /// The call is carried out; what it asks to be done elsewhere is done; a paused run goes on; a budget is raised by the proposed amount
    Approve {
        /// `question_…`
        id: QuestionId,
        /// Later calls of the tool are not asked about: in this conversation, or in all of its user
        #[arg(long, value_name = "SCOPE", value_parser = ["agentable", "user"])]
        remember: Option<String>,
    },
    /// The call is carried out with other arguments, if the guards allow that
    Edit {
        /// `question_…`
        id: QuestionId,
        /// All arguments, as a JSON object
        #[arg(value_parser = str::parse::<Value>)]
        input: Value,
    },
    /// A budget that is reached is raised, for this run or this agentable
    Raise {
        /// `question_…`
        id: QuestionId,
        /// US dollars, as in 2.50
        amount: Number,
    },
    /// The call is not carried out, or gets no input; a paused run, or one whose budget is reached, ends
    Reject {
        /// `question_…`
        id: QuestionId,
        /// Why not, for the model
        message: Option<String>,
    },
    /// The call is not carried out, the model reads a text as its result; or the call gets the input it needs, a JSON object
    Respond {
        /// `question_…`
        id: QuestionId,
        /// The result, or the input
        message: String,
    },
    /// Make a link with which a person decides in a browser, without an API key
    Link {
        /// `question_…`
        id: QuestionId,
        /// Whom it is for: the answer will have this name
        #[arg(long = "for", value_name = "NAME")]
        answered_by: Option<String>,
    },
}

/// What was decided, before it is compared with what was asked; or that another person is to decide.
enum Decided {
    Link { answered_by: Option<String> },
    Call(ApprovalAnswer),
    Raise(Number),
}

impl Decided {
    /// The answer to a question.
    fn answer(self, asked: &NewQuestion) -> Result<Value> {
        let id = asked.id;
        let wrong = |allowed: &str| Err(Failure::Usage(anyhow!("{id} {allowed}")));
        let answer = match self {
            Self::Call(answer) if asked.approval.is_some() => serde_json::to_value(answer),
            Self::Raise(_) if asked.approval.is_some() => {
                return wrong("is about a tool call: approve, edit, reject or respond");
            }
            _ if !asked.is_own() => {
                return wrong(&format!(
                    "is not about a tool call; POST /v1/questions/{id}/answer answers it"
                ));
            }
            Self::Call(ApprovalAnswer::Respond { message }) if asked.is_input() => {
                let content = serde_json::from_str::<Value>(&message)
                    .with_context(|| {
                        format!("{id} needs input: a JSON object, as in '{{\"name\": \"Ada\"}}'")
                    })
                    .map_err(Failure::Usage)?;
                serde_json::to_value(InputAnswer::Accept { content: Some(content) })
            }
            Self::Raise(amount) if asked.kind == QuestionKind::Budget => {
                serde_json::to_value(BudgetAnswer::Raise { amount })
            }
            Self::Call(answer @ (ApprovalAnswer::Approve { .. } | ApprovalAnswer::Reject { .. })) => {
                let yes = matches!(answer, ApprovalAnswer::Approve { .. });
                match asked.plain_answer(yes, None) {
                    Some(answer) => return Ok(answer),
                    None if asked.is_input() => {
                        return wrong("needs input: use `houston approvals respond` with a JSON object");
                    }
                    None => return wrong("proposes no amount: use `houston approvals raise`"),
                }
            }
            Self::Call(_) if asked.kind == QuestionKind::Budget => {
                return wrong("is about a budget: approve, raise or reject");
            }
            Self::Link { .. } => return wrong("is decided by whom the link is for"),
            _ if asked.is_input() => return wrong("needs input: respond, approve or reject"),
            _ => return wrong("is about a paused run: approve or reject"),
        };
        answer.map_err(|error| Failure::Other(error.into()))
    }
}

impl Decision {
    fn read(self) -> (QuestionId, Decided) {
        let (id, answer) = match self {
            Self::Raise { id, amount } => return (id, Decided::Raise(amount)),
            Self::Link { id, answered_by } => return (id, Decided::Link { answered_by }),
            Self::Approve { id, remember } => {
                let remember = remember.map(|scope| Remember {
                    scope: if scope == "user" { GrantScope::User } else { GrantScope::Agentable },
                    when: BTreeMap::new(),
                });
                (id, ApprovalAnswer::Approve { remember })
            }
            Self::Edit { id, input } => (id, ApprovalAnswer::Edit { input }),
            Self::Reject { id, message } => (id, ApprovalAnswer::Reject { message }),
            Self::Respond { id, message } => (id, ApprovalAnswer::Respond { message }),
        };
        (id, Decided::Call(answer))
    }
}

impl Approvals {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let Self { decision, limit, json } = self;
        match decision.map(Decision::read) {
            Some((id, Decided::Link { answered_by })) => {
                context.with_api(async |api| make_link(&api, id, answered_by, json).await)
            }
            Some((id, decided)) => context.with_api(async |api| decide(&api, id, decided, json).await),
            None => context.with_stores(async |_, stores| list(&stores, i64::from(limit), json).await),
        }
    }
}

async fn list(stores: &Cells<Store>, limit: i64, json: bool) -> Result<()> {
    let mut open = Vec::new();
    for store in stores.iter() {
        open.extend(store.operator().open_approvals(limit).await?);
    }
    open.sort_by_key(|asked| std::cmp::Reverse(asked.question.created_at));
    open.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    if json {
        print_json(&json!({"approvals": open.iter().map(row).collect::<Value>()}));
    } else if open.is_empty() {
        print("nothing waits for a person");
    } else {
        let rows = open.iter().map(|asked| {
            let (question, call) = (&asked.question, asked.question.asked.approval.as_deref());
            let what_for = call.map_or_else(|| question.asked.text.clone(), |call| call.input.to_string());
            [
                question.asked.id.to_string(),
                asked.agentable.public_id(&asked.kind),
                at(question.created_at),
                question.asked.expires_at.map_or_else(|| "never".to_owned(), at),
                call.map_or_else(|| what(asked).to_owned(), |call| call.tool.clone()),
                one_line(&what_for, 80),
            ]
        });
        print_table(["ID", "OF", "ASKED", "EXPIRES", "TOOL", "ARGUMENTS"], rows);
        for asked in &open {
            let asked = &asked.question.asked;
            if let Some(preview) = asked.approval.as_deref().and_then(|call| call.preview.as_deref()) {
                print("");
                print(&format!("{} would change:", asked.id));
                preview.lines().for_each(print);
            }
        }
        print("");
        print("Decide one with `houston approvals approve ID`, `edit`, `raise`, `reject` or `respond`.");
    }
    Ok(())
}

/// What a question without a tool call is about.
fn what(asked: &AskedQuestion) -> &'static str {
    match asked.question.asked.kind {
        QuestionKind::Budget => "(budget)",
        QuestionKind::Input => "(input)",
        _ => "(pause)",
    }
}

fn row(asked: &AskedQuestion) -> Value {
    let question = &asked.question;
    let call = question.asked.approval.as_deref();
    json!({
        "id": question.asked.id,
        "of": asked.agentable.public_id(&asked.kind),
        "user_id": asked.user,
        "run_id": asked.run,
        "kind": question.asked.kind,
        "tool": call.map(|call| &call.tool),
        "input": call.map(|call| &call.input),
        "why": call.map(|call| &call.why),
        "preview": call.and_then(|call| call.preview.as_ref()),
        "text": question.asked.text,
        "asked_at": question.created_at,
        "expires_at": question.asked.expires_at,
    })
}

async fn make_link(api: &Api, id: QuestionId, answered_by: Option<String>, json: bool) -> Result<()> {
    let (api, path) = (api.of(id, WAITING).await?, format!("/v1/questions/{id}/links"));
    let link: ApprovalLink = api.change(Method::POST, &path, &CreateApprovalLink { answered_by }).await?;
    if json {
        print_json(&link);
    } else {
        print(&link.path);
        print("");
        print(
            "Put the address at which people reach `houston serve` before it. Who has the link may decide.",
        );
    }
    Ok(())
}

/// What lists questions.
const WAITING: &str = "`houston approvals` lists what waits";

async fn decide(api: &Api, id: QuestionId, decided: Decided, json: bool) -> Result<()> {
    let (api, path) = (api.of(id, WAITING).await?, format!("/v1/questions/{id}"));
    let asked: QuestionResponse = api.get(&path).await?;
    let answer = decided.answer(&asked.into())?;
    let answered_by = Some("houston approvals".to_owned());
    let given = AnswerQuestion { answer, answered_by };
    let answered: QuestionResponse = api.change(Method::POST, &format!("{path}/answer"), &given).await?;
    let goes_on = answered.owner.id.public_id(&answered.owner.kind);
    let done = json!({"id": id, "answer": given.answer});
    print_either(json, &done, &format!("{id}: decided; {goes_on} goes on"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{Approvals, Decision};
    use crate::commands::{Arguments, Command};

    #[test]
    fn edited_arguments_are_read_as_json() {
        let edit = |input| {
            let words = ["houston", "approvals", "edit", "question_01a22d00f0a47738bc03fe392ef22d5f", input];
            Arguments::try_parse_from(words)
        };
        let Command::Approvals(Approvals { decision: Some(Decision::Edit { input, .. }), .. }) =
            edit(r#"{"title": "x"}"#).unwrap().command
        else {
            panic!("another command");
        };
        assert_eq!(input["title"], "x");
        assert!(edit("title=x").is_err());
    }
}
