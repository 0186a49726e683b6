//! Common scripts. Any closure `Fn(&Call) -> Reply` is a script.

use parking_lot::Mutex;

use super::{Call, Reply};

/// The same reply to every call.
pub fn always(reply: Reply) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    move |_| reply.clone()
}

/// One reply after the other, in the order of the calls; the last one for all further calls.
pub fn in_turn(replies: impl IntoIterator<Item = Reply>) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let replies: Vec<Reply> = replies.into_iter().collect();
    move |call| {
        let at = call.number.min(replies.len().saturating_sub(1));
        replies.get(at).cloned().unwrap_or_else(Reply::empty)
    }
}

/// `ask` (a tool call) after a user message, `answer` after tool results.
pub fn tool_then_answer(ask: Reply, answer: Reply) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    move |call| if call.has_tool_results() { answer.clone() } else { ask.clone() }
}

/// `fault` for the first `count` calls, then the replies of `script`.
pub fn after_faults(
    count: usize,
    fault: Reply,
    script: impl Fn(&Call) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    let left = Mutex::new(count);
    move |call| {
        let mut left = left.lock();
        if *left == 0 {
            return script(call);
        }
        *left -= 1;
        fault.clone()
    }
}

/// Repeats the user's last message: `You said: …`.
pub fn echo() -> impl Fn(&Call) -> Reply + Send + Sync + 'static {
    |call| Reply::text(format!("You said: {}", call.last_user_text())).in_pieces(4)
}
