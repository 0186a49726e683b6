//! An approval answered in code: the program looks at each call of a risky tool before it is carried out. While it decides, or if
//! it dies meanwhile, the question is a row in Postgres.
#![expect(clippy::print_stdout, reason = "a program prints")]

use houston::{Agent, Context, Decision, Question, Risk, tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Mail {
    to: String,
    subject: String,
}

/// Allows mails to colleagues.
async fn decide(question: Question) -> Decision {
    println!("? {}", question.text);
    match &question.call {
        Some(call) if call.input["to"].as_str().is_some_and(|to| to.ends_with("@example.com")) => {
            Decision::Approve
        }
        _ => Decision::reject("write to colleagues only"),
    }
}

#[tokio::main]
async fn main() -> Result<(), houston::Error> {
    let send = tool("send_mail", "Send a mail.", async |mail: Mail, cx: Context| {
        // A service that recognises repeated requests gets the same key for the same call.
        println!("> {}: {} ({})", mail.to, mail.subject, &cx.idempotency_key[..8]);
        Ok("sent")
    })
    .risk(Risk::External);
    let agent =
        Agent::builder().instructions("You send mails.").tool(send).on_question(decide).build().await?;
    println!("{}", agent.prompt("Invite ann@example.com and bob@elsewhere.org to lunch.").await?.text);
    agent.shutdown().await
}
