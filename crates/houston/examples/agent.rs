//! An agent in 20 lines. It uses the first provider whose key is set (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, …), else a
//! simulated model.
#![expect(clippy::print_stdout, reason = "a program prints")]

use houston::Agent;

#[tokio::main]
async fn main() -> Result<(), houston::Error> {
    let agent = Agent::builder().instructions("You keep notes.").tool("create_note").build().await?;

    let answer = agent.prompt("Please create a note: buy milk").await?;
    println!("{}", answer.text);
    println!("{} used {} tokens", answer.run, answer.usage.input_tokens + answer.usage.output_tokens);

    agent.shutdown().await
}
