//! The texts of the conversation: the same in every measurement.

use houston_testkit::model_server::{Call, Reply};
use serde_json::{Value, json};

/// The user's message of a turn: about 60 words.
pub(super) fn question(turn: usize) -> String {
    let topic = TOPICS[turn % TOPICS.len()];
    format!(
        "Turn {turn}: let us go on with {topic}. I thought about what you said before, and I would like to know how it \
         fits with the dates we have, what it costs, and what you would do first. Please keep in mind that we are two, \
         that we do not like crowds, and that we have to be back on the last day of the month. What is next?"
    )
}

const TOPICS: [&str; 7] =
    ["the trains", "the hotel", "the food", "the museums", "the budget", "the hikes", "the way back"];

/// The model's answer. In every fourth turn it first writes a note, in another fourth it first lists its notes.
pub(super) fn answer(call: &Call) -> Reply {
    if call.tools().is_empty() {
        return Reply::text(
            "The user and the agent planned the trip: trains, hotel and a budget were discussed, and notes were kept. \
             The user travels as one of two, avoids crowds, and must be back on the last day of the month.",
        );
    }
    let turn = turn(call);
    if user_spoke_last(call) {
        match turn % 4 {
            0 => {
                return Reply::tool(
                    "create_note",
                    json!({"title": format!("Turn {turn}"), "content": note(turn)}),
                );
            }
            2 => return Reply::tool("list_notes", json!({"limit": 4})),
            _ => {}
        }
    }
    let text = format!(
        "For turn {turn}: {} The next step is small: compare the two earlier options, take the one that leaves more time, \
         and write it down so that we do not speak about it again. Tell me when you have looked at it.",
        note(turn)
    );
    Reply::tool("send_message", json!({"content": text}))
}

/// Whether the last message contains a question of the user. It may also contain tool results of the previous turn.
fn user_spoke_last(call: &Call) -> bool {
    let last = call.json()["messages"].as_array().and_then(|messages| messages.last());
    let blocks = last.and_then(|last| last["content"].as_array());
    let context = call.system_context();
    let is_said = |block: &Value| block["type"] == "text" && block["text"].as_str() != context.as_deref();
    blocks.is_none_or(|blocks| blocks.iter().any(is_said))
}

fn note(turn: usize) -> String {
    let topic = TOPICS[turn % TOPICS.len()];
    format!(
        "About {topic}, as of turn {turn}: the earlier train is cheaper by {} euros and less crowded, the later one leaves \
         time for breakfast; both can be returned until the day before. ",
        10 + turn % 37
    )
}

/// The number of the turn, from the user's last message.
fn turn(call: &Call) -> usize {
    let turn = |text: &String| {
        let (_, rest) = text.rsplit_once("Turn ")?;
        rest.split(':').next()?.parse().ok()
    };
    call.user_texts().iter().rev().find_map(turn).unwrap_or(1)
}
