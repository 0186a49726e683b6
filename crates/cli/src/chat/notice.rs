//! Renders a system message (a task ended, a check-in is due) as one line.

use houston_protocol::agui::Fact;
use serde_json::Value;

use super::output::one_line;

/// One line: what happened, and the beginning of the message.
pub(crate) fn notice(metadata: &Value, content: &str) -> String {
    let tag = content.strip_prefix('<').and_then(|rest| rest.split_once('>')).map(|(tag, _)| tag);
    let named = tag.and_then(|tag| tag.split([' ', '/']).next());
    let body = tag.map_or(content, |tag| content[tag.len() + 2..].trim());
    let body = body.rsplit_once("</").map_or(body, |(body, _)| body);
    let attribute = |name: &str| {
        let rest = tag?.split_once(&format!(" {name}=\""))?.1;
        Some(unescaped(rest.split_once('"')?.0))
    };
    if named == Some("plan_ended") {
        let status = attribute("status").unwrap_or_default();
        let of = attribute("done").zip(attribute("of"));
        let of = of.map_or_else(String::new, |(done, of)| format!(", {done} of {of}"));
        return format!("ℹ plan ended: {status}{of}");
    }
    let what = match metadata["type"].as_str().or(named).unwrap_or_default() {
        "task_ended" => {
            let title = attribute("title").map(|title| format!(" “{title}”")).unwrap_or_default();
            let status = attribute("status").or_else(|| metadata["status"].as_str().map(str::to_owned));
            format!("task{title} ended: {}", status.as_deref().unwrap_or("no status"))
        }
        "agent_check_in" => {
            let reason = content.split_once("<reason>").and_then(|(_, rest)| rest.split_once("</reason>"));
            return match reason {
                Some((reason, _)) => format!("ℹ check-in: {}", one_line(&unescaped(reason))),
                None => "ℹ a check-in is due".to_owned(),
            };
        }
        "agent_message" => {
            let text = content.split_once("<text>").and_then(|(_, rest)| rest.split_once("</text>"));
            let from = attribute("from").unwrap_or_else(|| "another agent".to_owned());
            return format!("ℹ {from} wrote: {}", one_line(&unescaped(text.map_or(body, |(text, _)| text))));
        }
        "feed_generation" => return "ℹ the feed is to be written".to_owned(),
        _ => return format!("ℹ {}", one_line(&unescaped(body))),
    };
    match one_line(&unescaped(body)) {
        body if body.is_empty() => format!("ℹ {}", one_line(&what)),
        body => format!("ℹ {} ({body})", one_line(&what)),
    }
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// How far a call is: `… 3 of 10: page 3`.
pub(crate) fn progress_line(fact: &Fact<'_>) -> String {
    let Fact::ToolProgress { progress, total, message, .. } = fact else { return String::new() };
    let of = total.map_or_else(String::new, |total| format!(" of {total}"));
    let message = message.as_deref().map_or_else(String::new, |message| format!(": {}", one_line(message)));
    format!("… {progress}{of}{message}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notices_read_as_sentences() {
        let ended = "<task_ended id=\"task_1\" title=\"Flights &amp; rail\" status=\"completed\">\nThree found.\nMore\n</task_ended>";
        let empty = "<task_ended id=\"task_1\" title=\"T\" status=\"failed\">\n</task_ended>";
        let check_in = "<agent_check_in scheduled_for=\"2026\">\nLook after it.\n<reason>ask for the dates</reason>\n</agent_check_in>";
        for (metadata, content, expected) in [
            (json!({"type": "task_ended"}), ended, "ℹ task “Flights & rail” ended: completed (Three found.)"),
            (json!({}), empty, "ℹ task “T” ended: failed"),
            (
                json!({"type": "task_ended"}),
                "<plan_ended id=\"plan_1\" status=\"failed\" done=\"1\" of=\"2\">\n<step id=\"a\">x</step>\n</plan_ended>",
                "ℹ plan ended: failed, 1 of 2",
            ),
            (
                json!({"type": "task_ended", "status": "cancelled"}),
                "It is gone",
                "ℹ task ended: cancelled (It is gone)",
            ),
            (
                json!({"type": "agent_message"}),
                "<agent_message from=\"user_agent_1\">\n<text>Book &lt;it&gt;.</text>\nNot your user.\n</agent_message>",
                "ℹ user_agent_1 wrote: Book <it>.",
            ),
            (json!({"type": "agent_check_in"}), check_in, "ℹ check-in: ask for the dates"),
            (
                json!({}),
                "<feed_generation from=\"x\">\nWrite.</feed_generation>",
                "ℹ the feed is to be written",
            ),
            (json!({}), "Look for flights\nto Lima", "ℹ Look for flights"),
            (json!({}), "", "ℹ "),
        ] {
            assert_eq!(notice(&metadata, content), expected);
        }
    }
}
