//! `houston approvals`: lists the tool calls that wait for a person, and decides them.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use houston_domain::cell::Cells;
use houston_domain::id::QuestionId;
use houston_domain::question::approval::ApprovalAnswer;
use houston_domain::question::schema::check;
use houston_store::answer::{Answered, AskedQuestion};
use houston_store::{Error, Store};
use serde_json::{Value, json};

use super::agentable::{Database, one_line, table};
use super::{Context, Failure};
use crate::output::{print, print_json};

/// List the tool calls that wait for a person, or decide one of them.
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
    #[command(flatten)]
    database: Database,
}

#[derive(Debug, Subcommand)]
enum Decision {
    /// The call is carried out
    Approve {
        /// `question_…`
        id: QuestionId,
    },
    /// The call is carried out with other arguments, if the guards allow that
    Edit {
        /// `question_…`
        id: QuestionId,
        /// All arguments, as a JSON object
        input: String,
    },
    /// The call is not carried out
    Reject {
        /// `question_…`
        id: QuestionId,
        /// Why not, for the model
        message: Option<String>,
    },
    /// The call is not carried out; the model reads a text as its result
    Respond {
        /// `question_…`
        id: QuestionId,
        /// The result
        message: String,
    },
}

impl Decision {
    fn read(self) -> Result<(QuestionId, ApprovalAnswer), Failure> {
        Ok(match self {
            Self::Approve { id } => (id, ApprovalAnswer::Approve {}),
            Self::Edit { id, input } => {
                let input = serde_json::from_str::<Value>(&input)
                    .context("INPUT must be a JSON object with all arguments")
                    .map_err(Failure::Usage)?;
                (id, ApprovalAnswer::Edit { input })
            }
            Self::Reject { id, message } => (id, ApprovalAnswer::Reject { message }),
            Self::Respond { id, message } => (id, ApprovalAnswer::Respond { message }),
        })
    }
}

impl Approvals {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let Self { decision, limit, json, database } = self;
        let decision = decision.map(Decision::read).transpose()?;
        database.with(context, async |_, stores| match decision {
            Some((id, answer)) => decide(stores.of(id), id, &answer, json).await,
            None => list(&stores, i64::from(limit), json).await,
        })
    }
}

async fn list(stores: &Cells<Store>, limit: i64, json: bool) -> Result<ExitCode, Failure> {
    let mut open = Vec::new();
    for store in stores.iter() {
        open.extend(store.operator().open_approvals(limit).await?);
    }
    open.sort_by_key(|asked| std::cmp::Reverse(asked.question.created_at));
    open.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    if json {
        let rows: Vec<Value> = open.iter().map(row).collect();
        print_json(&json!({"approvals": rows}));
    } else if open.is_empty() {
        print("no call waits for a person");
    } else {
        let lines = open.iter().map(|asked| {
            let call = asked.question.asked.approval.as_deref();
            let time = |at: chrono::DateTime<chrono::Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
            vec![
                asked.question.asked.id.to_string(),
                asked.agentable.public_id(&asked.kind),
                time(asked.question.created_at),
                asked.question.asked.expires_at.map_or_else(|| "never".to_owned(), time),
                call.map_or_else(String::new, |call| call.tool.clone()),
                one_line(
                    &call.map_or_else(|| asked.question.asked.text.clone(), |call| call.input.to_string()),
                    80,
                ),
            ]
        });
        let lines: Vec<Vec<String>> = lines.collect();
        table(&["ID", "OF", "ASKED", "EXPIRES", "TOOL", "ARGUMENTS"], &lines)
            .iter()
            .for_each(|line| print(line));
        print("");
        print("Decide one with `houston approvals approve ID`, `edit`, `reject` or `respond`.");
    }
    Ok(ExitCode::SUCCESS)
}

fn row(asked: &AskedQuestion) -> Value {
    let question = &asked.question;
    let call = question.asked.approval.as_deref();
    json!({
        "id": question.asked.id,
        "of": asked.agentable.public_id(&asked.kind),
        "user_id": asked.user,
        "run_id": asked.run,
        "tool": call.map(|call| &call.tool),
        "input": call.map(|call| &call.input),
        "why": call.map(|call| &call.why),
        "text": question.asked.text,
        "asked_at": question.created_at,
        "expires_at": question.asked.expires_at,
    })
}

async fn decide(
    store: &Store,
    id: QuestionId,
    answer: &ApprovalAnswer,
    json: bool,
) -> Result<ExitCode, Failure> {
    let not_found = |error: Error| match error {
        Error::NotFound { .. } => {
            Failure::Other(anyhow!("there is no {id}; `houston approvals` lists the calls that wait"))
        }
        error => error.into(),
    };
    let tenant = store.operator().tenant_of_question(id).await.map_err(not_found)?;
    let store = store.tenant(tenant);
    let asked = store.question(id).await.map_err(not_found)?.question.asked;
    if asked.approval.is_none() {
        return Err(Failure::Usage(anyhow!(
            "{id} is not about a tool call; POST /v1/questions/{id}/answer answers it"
        )));
    }
    let answer = serde_json::to_value(answer).map_err(|error| Failure::Other(error.into()))?;
    if let Some(schema) = &asked.schema {
        check(schema, &answer).map_err(|wrong| {
            Failure::Usage(anyhow!("the answer does not fit: {} {}", wrong.pointer, wrong.reason))
        })?;
    }
    match store.answer_question(id, &answer, Some("houston approvals")).await.map_err(not_found)? {
        Answered::Closed(asked) if asked.question.answer.as_ref() != Some(&answer) => {
            let (state, answer) = (asked.question.state.as_str(), asked.question.answer);
            let with = answer.map_or_else(String::new, |answer| format!(" with {answer}"));
            Err(Failure::Other(anyhow!("{id} is not open any more: it was {state}{with}")))
        }
        Answered::Now(_) | Answered::Closed(_) if json => {
            print_json(&json!({"id": id, "answer": answer}));
            Ok(ExitCode::SUCCESS)
        }
        Answered::Now(asked) | Answered::Closed(asked) => {
            print(&format!("{id}: decided; {} goes on", asked.agentable.public_id(&asked.kind)));
            Ok(ExitCode::SUCCESS)
        }
    }
}
