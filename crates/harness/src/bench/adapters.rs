//! What a streamed token costs over each protocol, compared with the native stream in the same process.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use houston_protocol::message::AcceptedMessageResponse;
use houston_protocol::sse::SseDecoder;
use houston_testkit::servers::TestServers;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::spread::round;
use super::tokens;
use crate::http::Connection;
use crate::installation::{Installation, goal};
use houston_xtask::console::Progress;

/// Concurrent answers.
const ANSWERS: usize = 100;
/// All protocols are measured in turn, so often.
const ROUNDS: usize = 3;

/// The protocols, the native stream first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Protocol {
    Native,
    AgUi,
    Responses,
    ChatCompletions,
    AiSdk,
    A2a,
}

const PROTOCOLS: [Protocol; 6] = [
    Protocol::Native,
    Protocol::AgUi,
    Protocol::Responses,
    Protocol::ChatCompletions,
    Protocol::AiSdk,
    Protocol::A2a,
];

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::AgUi => "AG-UI",
            Self::Responses => "OpenAI Responses",
            Self::ChatCompletions => "OpenAI chat completions",
            Self::AiSdk => "Vercel AI SDK",
            Self::A2a => "A2A",
        }
    }

    /// The path and the body of a request that posts a message to the goal and streams the answer.
    fn request(self, goal: &str) -> (&'static str, Value) {
        let text = "Count.";
        match self {
            Self::Native => ("", Value::Null),
            Self::AgUi => (
                "/ag-ui/goal",
                json!({"threadId": goal, "runId": "1", "messages": [{"id": "1", "role": "user", "content": text}],
                       "tools": [], "context": [], "state": {}, "forwardedProps": {}}),
            ),
            Self::Responses => (
                "/compat/openai/v1/responses",
                json!({"model": "goal", "conversation": format!("conv_{goal}"), "input": text, "stream": true}),
            ),
            Self::ChatCompletions => (
                "/compat/openai/v1/chat/completions",
                json!({"model": "goal", "messages": [{"role": "user", "content": text}], "stream": true,
                       "metadata": {"conversation": format!("conv_{goal}")}}),
            ),
            Self::AiSdk => (
                "/compat/ai-sdk/goal",
                json!({"id": goal, "trigger": "submit-message", "messages": [
                       {"id": "1", "role": "user", "parts": [{"type": "text", "text": text}]}]}),
            ),
            Self::A2a => (
                "/a2a/goal/message:stream",
                json!({"message": {"messageId": "1", "contextId": goal, "role": "ROLE_USER", "parts": [{"text": text}]}}),
            ),
        }
    }

    /// The piece of the answer in an event.
    fn piece(self, event: &Value) -> Option<&str> {
        match self {
            Self::Native | Self::AgUi if event["type"] == "TEXT_MESSAGE_CONTENT" => event["delta"].as_str(),
            Self::Responses if event["type"] == "response.output_text.delta" => event["delta"].as_str(),
            Self::ChatCompletions => event.pointer("/choices/0/delta/content")?.as_str(),
            Self::AiSdk if event["type"] == "text-delta" => event["delta"].as_str(),
            Self::A2a => event.pointer("/artifactUpdate/artifact/parts/0/text")?.as_str(),
            _ => None,
        }
    }
}

/// Processor time of one protocol.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Cost {
    protocol: Protocol,
    /// µs of Houston's processor time per token: the least of all rounds.
    cpu_us_per_token: f64,
    /// Compared with the native stream, in percent.
    more_percent: f64,
    bytes_per_token: f64,
}

/// The result.
#[derive(Debug, Serialize)]
pub(crate) struct Adapters {
    answers: usize,
    tokens: usize,
    rounds: usize,
    costs: Vec<Cost>,
}

impl Adapters {
    pub(crate) fn table(&self) -> String {
        let mut table =
            format!("{:<26}{:>14}{:>10}{:>14}\n", "protocol", "µs per token", "more", "bytes/token");
        for cost in &self.costs {
            let (name, more) = (cost.protocol.name(), format!("{:+.0} %", cost.more_percent));
            let _ = writeln!(
                table,
                "{name:<26}{:>14}{more:>10}{:>14}",
                cost.cpu_us_per_token, cost.bytes_per_token
            );
        }
        table
    }
}

/// Measures [`ANSWERS`] answers of `tokens` tokens each over every protocol, [`ROUNDS`] times in turn.
pub(crate) async fn measure(program: &Path, servers: &TestServers, tokens: usize) -> Result<Adapters> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Ends when it is dropped with this measurement.
    let mut model = JoinSet::new();
    model.spawn(tokens::serve(listener, Instant::now(), tokens));
    let variables = [
        ("HOUSTON_MODEL", "local/bench".to_owned()),
        ("HOUSTON_LOCAL_URL", format!("http://{address}/v1")),
        ("HOUSTON_MODEL_TOOLS", "false".to_owned()),
        ("HOUSTON_ORCHESTRATOR__FAIRNESS__MAX_RUNNING", ANSWERS.to_string()),
    ];
    let houston = Installation::start(program, servers, &variables).await?;
    let user = houston.user("bench").await?;
    let mut progress =
        Progress::new("protocols: a hundred answers at once", (ROUNDS * PROTOCOLS.len()) as u64);
    let mut least = [(f64::MAX, 0.0); PROTOCOLS.len()];
    for _ in 0..ROUNDS {
        for (protocol, least) in PROTOCOLS.into_iter().zip(&mut least) {
            let measured = answers(&houston, &user, protocol, tokens).await?;
            if measured.0 < least.0 {
                *least = measured;
            }
            progress.step();
        }
    }
    let native = least[0].0;
    let costs = PROTOCOLS.into_iter().zip(least).map(|(protocol, (cpu, bytes))| Cost {
        protocol,
        cpu_us_per_token: round(cpu),
        more_percent: round((cpu / native - 1.0) * 100.0),
        bytes_per_token: round(bytes),
    });
    Ok(Adapters { answers: ANSWERS, tokens, rounds: ROUNDS, costs: costs.collect() })
}

/// One round of one protocol: µs and bytes per token.
async fn answers(
    houston: &Installation,
    user: &str,
    protocol: Protocol,
    tokens: usize,
) -> Result<(f64, f64)> {
    let mut prepared = Vec::with_capacity(ANSWERS);
    for _ in 0..ANSWERS {
        let mut connection = houston.connect().await?;
        let goal = goal(&mut connection, user, "bench").await?;
        prepared.push((connection, goal));
    }
    let cpu = houston.cpu()?;
    let mut readers = JoinSet::new();
    for (mut connection, goal) in prepared {
        readers.spawn(async move { read(&mut connection, protocol, &goal, tokens).await });
    }
    let mut bytes = 0;
    while let Some(read) = readers.join_next().await {
        bytes += read??;
    }
    let (spent, count) = (houston.cpu()? - cpu, (ANSWERS * tokens) as f64);
    Ok((spent.as_secs_f64() * 1e6 / count, bytes as f64 / count))
}

/// Posts a message and reads the answer; returns the bytes of the stream.
async fn read(connection: &mut Connection, protocol: Protocol, goal: &str, tokens: usize) -> Result<usize> {
    let (path, body) = protocol.request(goal);
    if protocol == Protocol::Native {
        let body = json!({"content": "Count."}).to_string();
        let posted = connection.post(&format!("/v1/goals/{goal}/messages"), &body).await?;
        let accepted: AcceptedMessageResponse = posted.json()?;
        let status = connection.resume(&accepted.events_url, "").await?;
        ensure!(status == 200, "{}: {status}", accepted.events_url);
    } else {
        let status = connection.post_stream(path, &body.to_string()).await?;
        ensure!(status == 200, "{path}: {status}");
    }
    let (mut decoder, mut text, mut bytes) = (SseDecoder::default(), String::new(), 0);
    while let Some(chunk) = connection.chunk().await? {
        bytes += chunk.len();
        for event in decoder.push(&chunk)? {
            // `[DONE]` is no JSON.
            let Ok(event) = serde_json::from_str::<Value>(&event.data) else { continue };
            text.push_str(protocol.piece(&event).unwrap_or_default());
        }
    }
    let read = text.split_whitespace().count();
    ensure!(read == tokens, "{}: received {read} of {tokens} tokens", protocol.name());
    Ok(bytes)
}
