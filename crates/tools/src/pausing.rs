//! Actions outside that pause: until a person has answered, or until they are asked how far they are.
//!
//! ```text
//! Plan::Begin → Acted::Paused(pause) → committed with the call → the run waits → Tool::go_on(state, answer) → Acted::Done
//! ```

use std::time::Duration;

use houston_domain::tool_call::ToolResponse;
use serde_json::Value;

/// How far an action outside is.
#[derive(Debug, Clone, PartialEq)]
pub enum Acted {
    /// It has ended.
    Done(ToolResponse),
    /// It goes on later.
    Paused(Pause),
}

/// An action outside that goes on later.
#[derive(Debug, Clone, PartialEq)]
pub struct Pause {
    /// What the tool needs to go on: committed before anything else happens. At most
    /// [`MAX_STATE_BYTES`](houston_domain::tool_call::MAX_STATE_BYTES) bytes of JSON; a call with a larger one fails.
    pub state: Value,
    /// What it waits for.
    pub until: Until,
}

/// What a paused action waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum Until {
    /// A person. Going on is another action, which is repeated after a crash only if the effect class of the tool allows it.
    Answered(CallQuestion),
    /// This time; zero: it goes on at once, after its state is committed. Going on only asks how far it is, or waits: it may be
    /// repeated.
    Elapsed(Duration),
}

/// What a person is asked in the middle of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallQuestion {
    /// The text for people.
    pub text: String,
    /// The JSON Schema of what is asked for, an object; `None`: the person does something elsewhere and says that it is done.
    pub content: Option<Value>,
    /// Whether the client is asked for the result of one of its own tools
    /// ([`client_offer`](houston_domain::client_offer)), and not a person.
    pub of_client: bool,
}

/// What a paused call goes on with.
#[derive(Debug, Clone, PartialEq)]
pub struct Paused {
    /// [`Pause::state`].
    pub state: Value,
    /// The answer, if it waited for one: an [`InputAnswer`](houston_domain::question::input::InputAnswer) as JSON.
    pub answer: Option<Value>,
}
