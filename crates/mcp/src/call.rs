//! [`Call`]: one call of a tool, from its arguments to what the model reads, over the pauses in its middle.

mod task;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use houston_domain::tool_call::{EffectClass, ToolResponse};
use houston_tools::untrusted::marked;
use houston_tools::{Acted, CallContext, CallQuestion, InvalidInput, Pause, Paused, Plan, Until};
use rmcp::model::{CallToolResponse, CallToolResult, InputRequests, InputRequiredResult, JsonObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::task::Begun;
use crate::answer::response;
use crate::asked::Asked;
use crate::connection::{Again, Request};
use crate::error::CallError;
use crate::server::Server;

/// How often a server may ask in one call, or want it to be sent again.
const MAX_ROUNDS: u32 = 10;
/// The pause before a call is sent again that needs no input: a server does this when it has too much to do.
const AGAIN: Duration = Duration::from_secs(1);
/// The most bytes of what a server wants back.
const MAX_REQUEST_STATE: usize = 64 * 1024;
/// What the model reads if the server asked in a way that cannot wait.
const DECLINED: &str = "[during this call the server asked a person something, which was declined: Houston can only ask for \
                        servers that speak the protocol of 2026-07-28 (`protocol` in mcp.toml)]";

/// What a call needs of its tool.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) server: Arc<Server>,
    /// The name that the server gives the tool.
    pub(crate) remote: String,
    pub(crate) effect: EffectClass,
    pub(crate) is_untrusted: bool,
}

/// What a paused call needs to go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// The server has asked: the call is sent again with the answer.
    Asked {
        asked: Asked,
        /// What the server wants back, byte for byte.
        request_state: Option<String>,
        round: u32,
    },
    /// The server has begun a task.
    Task(Begun),
}

impl State {
    pub(crate) fn to_value(&self) -> Value {
        // All keys are strings, so this does not fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Ends what goes on at the server.
pub(crate) async fn give_up(server: &Arc<Server>, state: Value) {
    if let Ok(State::Task(begun)) = State::deserialize(&state)
        && let Err(error) = server.cancel_task(begun.id()).await
    {
        tracing::info!(server = server.name(), %error, "a task was not cancelled; it may go on");
    }
}

impl Call {
    /// The call of the tool that is offered as `name`.
    ///
    /// # Errors
    /// The arguments are no object.
    pub(crate) fn plan(self, name: &str, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Value::Object(arguments) = input.clone() else {
            return Err(InvalidInput(format!("{name}: the arguments must be a JSON object")));
        };
        let context = context.clone();
        let acted = async move {
            let acted = self.send(arguments, None, 0, &context).await;
            self.without_secrets(acted)
        };
        Ok(Plan::Begin(acted.boxed()))
    }

    /// Goes on after a pause.
    pub(crate) fn go_on(
        self,
        paused: Paused,
        input: &Value,
        context: &CallContext,
    ) -> BoxFuture<'static, Acted> {
        let arguments = input.as_object().cloned().unwrap_or_default();
        let context = context.clone();
        let acted = async move {
            let acted = self.go_on_with(paused, arguments, context).await;
            self.without_secrets(acted)
        };
        acted.boxed()
    }

    /// The same without the secrets of the server, which it may echo. What it wants back stays as it is.
    fn without_secrets(&self, acted: Acted) -> Acted {
        let masks = self.server.masks();
        let text = |text: &str| masks.text(text).into_owned();
        match acted {
            Acted::Done(response) => Acted::Done(response.map_text(text)),
            Acted::Paused(Pause { state, until: Until::Answered(question) }) => {
                let CallQuestion { text: asked, content, of_client } = question;
                let content = content.map(|content| masks.json(content));
                let question = CallQuestion { text: text(&asked), content, of_client };
                Acted::Paused(Pause { state, until: Until::Answered(question) })
            }
            paused @ Acted::Paused(_) => paused,
        }
    }

    async fn go_on_with(&self, paused: Paused, arguments: JsonObject, context: CallContext) -> Acted {
        let Paused { state, answer } = paused;
        match (State::deserialize(&state), answer) {
            (Ok(State::Asked { asked, request_state, round }), Some(answer)) => {
                let responses = Some(asked.responses(&answer));
                let again = Again { responses, state: request_state };
                self.send(arguments, Some(again), round, &context).await
            }
            (Ok(State::Task(mut begun)), Some(answer)) => {
                let Some(asked) = begun.asked.take() else { return begun.after(Duration::ZERO) };
                match self.server.update_task(begun.id(), asked.responses(&answer)).await {
                    Ok(()) => begun.after(Duration::ZERO),
                    Err(error) => Acted::Done(self.failed(error)),
                }
            }
            (Ok(State::Task(begun)), None) => task::follow(self, begun, &context).await,
            // What this version of Houston does not understand was stored by another one.
            _ => Acted::Done(ToolResponse::outcome_unknown()),
        }
    }

    async fn send(
        &self,
        arguments: JsonObject,
        mut again: Option<Again>,
        mut round: u32,
        context: &CallContext,
    ) -> Acted {
        let progress = context.progress.clone().without(self.server.masks());
        loop {
            let request = Request {
                tool: self.remote.clone(),
                arguments: arguments.clone(),
                key: context.idempotency_key.clone(),
                again,
                progress: progress.clone(),
            };
            let (answer, declined) = match self.server.call(request).await {
                Ok(answered) => answered,
                Err(error) => return Acted::Done(self.failed(error)),
            };
            round += 1;
            match answer {
                CallToolResponse::Complete(result) => {
                    let response = self.response(Ok(result));
                    let noted = |text: &str| format!("{DECLINED}\n{text}");
                    return Acted::Done(if declined { response.map_text(noted) } else { response });
                }
                CallToolResponse::InputRequired(_) if round > MAX_ROUNDS => {
                    let why = format!("asked more than {MAX_ROUNDS} times in one call");
                    return Acted::Done(self.failed(CallError::Asked(why)));
                }
                CallToolResponse::InputRequired(InputRequiredResult {
                    input_requests,
                    request_state,
                    ..
                }) => {
                    let bytes = request_state.as_ref().map_or(0, String::len);
                    if bytes > MAX_REQUEST_STATE {
                        let why = format!(
                            "wants {bytes} bytes to be kept and sent back; at most {MAX_REQUEST_STATE} are"
                        );
                        return Acted::Done(self.failed(CallError::Asked(why)));
                    }
                    let Some(requests) = input_requests.filter(|requests| !requests.is_empty()) else {
                        again = Some(Again { responses: None, state: request_state });
                        tokio::time::sleep(AGAIN).await;
                        continue;
                    };
                    return self.ask(requests, |asked| State::Asked { asked, request_state, round });
                }
                CallToolResponse::Task(begun) => {
                    return match Begun::new(&begun.task, context) {
                        Ok(begun) => begun.after(Duration::ZERO),
                        Err(why) => Acted::Done(self.failed(CallError::Asked(why))),
                    };
                }
                _ => return Acted::Done(self.failed(CallError::Unsupported("with something else"))),
            }
        }
    }

    /// Pauses until a person has answered. `state`: what is kept meanwhile.
    pub(crate) fn ask(&self, requests: InputRequests, state: impl FnOnce(Asked) -> State) -> Acted {
        match Asked::of(self.server.name(), &self.remote, requests) {
            Ok((asked, question)) => {
                Acted::Paused(Pause { state: state(asked).to_value(), until: Until::Answered(question) })
            }
            Err(why) => Acted::Done(self.failed(CallError::Asked(why))),
        }
    }

    pub(crate) fn failed(&self, error: CallError) -> ToolResponse {
        self.response(Err(error))
    }

    pub(crate) fn response(&self, answer: Result<CallToolResult, CallError>) -> ToolResponse {
        let response = response(self.effect, answer);
        if self.is_untrusted { response.map_text(|text| marked(self.server.name(), text)) } else { response }
    }
}
