//! Questions that runs and plans ask.

use houston_protocol::agui::Fact;
use houston_protocol::question::CallToApprove;
use serde_json::Value;

use super::{Paint, Screen};
use crate::chat::approvals::{ANSWER_ELSEWHERE, Asks};
use crate::chat::output::{Output, one_line};

impl Screen {
    /// Shows a question that was asked.
    pub(super) fn question_asked(&mut self, out: &mut Output, fact: &Fact<'_>) {
        let Fact::QuestionAsked { question_id, text, approval, .. } = fact else { return };
        if let Some(asks) = Asks::of(fact) {
            return self.ask(out, text, approval.as_deref(), &asks);
        }
        let line = format!("? {} (answer with POST /v1/questions/{question_id}/answer)", one_line(text));
        self.write_line(out, Paint::Bold, &line);
    }

    /// Shows a question that can be answered here: about a call, if there is one.
    fn ask(&mut self, out: &mut Output, text: &str, call: Option<&CallToApprove>, asks: &Asks) {
        self.write_line(out, Paint::Bold, &format!("? {}", asks.text(text)));
        if let Some(Value::Object(arguments)) = call.map(|call| &call.input) {
            for (name, value) in arguments {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.write_line(out, Paint::Plain, &format!("  {name}: {}", one_line(&value)));
            }
        }
        for line in call.and_then(|call| call.preview.as_deref()).unwrap_or_default().lines() {
            self.write_line(out, Paint::Plain, &format!("  {line}"));
        }
        let how = if self.style.interactive { asks.choices() } else { ANSWER_ELSEWHERE.to_owned() };
        self.write_line(out, Paint::Dim, &format!("  {how}"));
    }
}
