//! The input of a response, and the messages of a chat completion: what is new in it, and what the client remembers.

use houston_domain::message::MAX_MESSAGE_BYTES;
use houston_domain::setting::WrongSetting;
use serde_json::Value;

use crate::message::MessageImage;

pub(super) fn wrong<T>(pointer: impl Into<String>, reason: impl Into<String>) -> Result<T, WrongSetting> {
    Err(WrongSetting::new(pointer, reason))
}

/// Something is not what it may be.
pub(super) fn unsupported<T>(pointer: String, given: &str, allowed: &str) -> Result<T, WrongSetting> {
    wrong(pointer, format!("`{given}` is not supported; allowed: {allowed}"))
}

/// The roles of messages.
pub(super) const ALLOWED_ROLES: &str = "`user`, `assistant`, `system`, `developer`";

/// Something that the client remembers of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// Whether the agent said it.
    pub by_agent: bool,
    /// The text.
    pub text: String,
}

/// An answer to what a response needed.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// JSON Pointer of the item, from the input.
    pub pointer: String,
    /// The `approval_request_id` or the `call_id`.
    pub to: String,
    /// What was answered.
    pub answer: Answered,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// Whether a tool may be carried out.
    Approval {
        /// Yes or no.
        approve: bool,
        /// Why not.
        reason: Option<String>,
    },
    /// The output of a function.
    Output(String),
}

/// What a request says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// The user's new text; several messages are joined by blank lines.
    pub text: String,
    /// The images in it.
    pub images: Vec<MessageImage>,
    /// Where the first new message is: JSON Pointer, from the input.
    pub at: String,
    /// Answers.
    pub answers: Vec<Answer>,
    /// Texts for the agent: those of the roles `system` and `developer`.
    pub instructions: Vec<String>,
    /// What was said before the agent spoke last, and that.
    pub earlier: Vec<Earlier>,
}

impl Input {
    /// Reads the `input` of a response: a text, or items.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first item that Houston cannot read.
    pub fn of_response(input: &Value) -> Result<Self, WrongSetting> {
        match input {
            Value::String(text) => Ok(Self { text: text.clone(), ..Self::default() }),
            Value::Array(items) => Self::of(items, |read, pointer, item| read.item(pointer, item)),
            _ => wrong("", "must be a text or a list of items"),
        }
    }

    /// Reads the `messages` of a chat completion.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first message that Houston cannot read.
    pub fn of_chat(messages: &[Value]) -> Result<Self, WrongSetting> {
        Self::of(messages, |read, pointer, message| match message["role"].as_str() {
            Some("tool" | "function") => read.answer(pointer, message, "tool_call_id", "content"),
            _ => read.message(pointer, message),
        })
    }

    /// Puts what the client remembers before the text, for a thread that has nothing of it. The oldest is left out first, if it
    /// would be too much.
    pub fn tell_earlier(&mut self) {
        if self.earlier.is_empty() || self.text.is_empty() {
            return;
        }
        const INTRODUCTION: &str = "What was said before, as my client remembers it:\n\n";
        const END: &str = "What I say now:\n\n";
        let said = |earlier: &Earlier| {
            let who = if earlier.by_agent { "You" } else { "I" };
            format!("{who} said: {}\n\n", earlier.text)
        };
        let room = MAX_MESSAGE_BYTES.saturating_sub(self.text.len() + INTRODUCTION.len() + END.len());
        let mut bytes = 0;
        let mut newest_first = Vec::new();
        for earlier in self.earlier.iter().rev().map(said) {
            bytes += earlier.len();
            if bytes > room {
                break;
            }
            newest_first.push(earlier);
        }
        if !newest_first.is_empty() {
            let earlier: String = newest_first.into_iter().rev().collect();
            self.text = format!("{INTRODUCTION}{earlier}{END}{}", self.text);
        }
    }

    fn of(
        items: &[Value],
        read: impl Fn(&mut Self, &str, &Value) -> Result<(), WrongSetting>,
    ) -> Result<Self, WrongSetting> {
        let mut all = Self::default();
        for (nth, item) in items.iter().enumerate() {
            read(&mut all, &format!("/{nth}"), item)?;
        }
        Ok(all)
    }

    fn item(&mut self, pointer: &str, item: &Value) -> Result<(), WrongSetting> {
        match item["type"].as_str() {
            None | Some("message") => self.message(pointer, item)?,
            Some("function_call_output") => self.answer(pointer, item, "call_id", "output")?,
            Some("mcp_approval_response") => {
                let to = text_in(pointer, item, "approval_request_id")?;
                let Some(approve) = item["approve"].as_bool() else {
                    return wrong(format!("{pointer}/approve"), "must be true or false");
                };
                let reason = item["reason"].as_str().map(str::to_owned);
                let answer = Answered::Approval { approve, reason };
                self.answers.push(Answer { pointer: pointer.to_owned(), to, answer });
            }
            // What a response had said.
            Some(
                "reasoning"
                | "function_call"
                | "mcp_call"
                | "mcp_approval_request"
                | "mcp_list_tools"
                | "item_reference",
            ) => self.spoken(None),
            Some(other) => {
                let allowed = "`message`, `function_call_output`, `mcp_approval_response`";
                return unsupported(format!("{pointer}/type"), other, allowed);
            }
        }
        Ok(())
    }

    fn message(&mut self, pointer: &str, message: &Value) -> Result<(), WrongSetting> {
        let role = message["role"].as_str().unwrap_or_default();
        let content = &message["content"];
        let content_at = format!("{pointer}/content");
        match role {
            "user" => {
                let (text, images) = content_of(&content_at, content)?;
                if self.text.is_empty() && self.images.is_empty() {
                    self.at.clone_from(&content_at);
                }
                join(&mut self.text, &text);
                self.images.extend(images);
            }
            "assistant" => {
                // A message that only calls tools has none.
                let text = if content.is_null() { None } else { Some(content_of(&content_at, content)?.0) };
                self.spoken(text);
            }
            "system" | "developer" => self.instructions.push(text_only(content_at, content)?),
            other => return unsupported(format!("{pointer}/role"), other, ALLOWED_ROLES),
        }
        Ok(())
    }

    /// The agent spoke: what the user had said before is not new.
    fn spoken(&mut self, text: Option<String>) {
        let said = std::mem::take(&mut self.text);
        self.images.clear();
        self.answers.clear();
        for (by_agent, text) in [(false, said), (true, text.unwrap_or_default())] {
            if !text.is_empty() {
                self.earlier.push(Earlier { by_agent, text });
            }
        }
    }

    fn answer(&mut self, pointer: &str, item: &Value, id: &str, output: &str) -> Result<(), WrongSetting> {
        let to = text_in(pointer, item, id)?;
        let answer = Answered::Output(text_only(format!("{pointer}/{output}"), &item[output])?);
        self.answers.push(Answer { pointer: pointer.to_owned(), to, answer });
        Ok(())
    }
}

/// A field that must be a text.
fn text_in(pointer: &str, of: &Value, name: &str) -> Result<String, WrongSetting> {
    match of[name].as_str() {
        Some(text) => Ok(text.to_owned()),
        None => wrong(format!("{pointer}/{name}"), "must be a text"),
    }
}

/// The text of what may have no images.
fn text_only(pointer: String, content: &Value) -> Result<String, WrongSetting> {
    let (text, images) = content_of(&pointer, content)?;
    if images.is_empty() { Ok(text) } else { wrong(pointer, "must be text") }
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

/// The text of a message; `None` if it has anything else.
pub(super) fn text_of(pointer: &str, content: &Value) -> Result<Option<String>, WrongSetting> {
    let is_text = |part: &Value| !matches!(part["type"].as_str(), Some("input_image" | "image_url"));
    if content.is_null() {
        return Ok(Some(String::new()));
    }
    let has_more = content.as_array().is_some_and(|parts| !parts.iter().all(is_text));
    Ok(if has_more { None } else { Some(content_of(pointer, content)?.0) })
}

/// The text and the images of a message.
fn content_of(pointer: &str, content: &Value) -> Result<(String, Vec<MessageImage>), WrongSetting> {
    let parts = match content {
        Value::String(text) => return Ok((text.clone(), Vec::new())),
        Value::Array(parts) => parts,
        _ => return wrong(pointer, "must be a text or a list of parts"),
    };
    let (mut text, mut images) = (String::new(), Vec::new());
    for (nth, part) in parts.iter().enumerate() {
        let at = format!("{pointer}/{nth}");
        match part["type"].as_str().unwrap_or_default() {
            "input_text" | "output_text" | "text" | "summary_text" => {
                text.push_str(&text_in(&at, part, "text")?);
            }
            "refusal" => text.push_str(part["refusal"].as_str().unwrap_or_default()),
            "input_image" => images.push(image(&format!("{at}/image_url"), &part["image_url"])?),
            "image_url" => images.push(image(&format!("{at}/image_url/url"), &part["image_url"]["url"])?),
            other => {
                let allowed = "`input_text`, `text`, `input_image`, `image_url`";
                return unsupported(format!("{at}/type"), other, allowed);
            }
        }
    }
    Ok((text, images))
}

/// An image from its URL, which may contain it.
fn image(pointer: &str, url: &Value) -> Result<MessageImage, WrongSetting> {
    let Some(url) = url.as_str() else {
        return wrong(pointer, "must be a URL: `https://…`, or `data:image/png;base64,…`");
    };
    let Some(rest) = url.strip_prefix("data:") else {
        return Ok(MessageImage { data: None, url: Some(url.to_owned()) });
    };
    match rest.split_once(";base64,") {
        Some((_, data)) => Ok(MessageImage { data: Some(data.to_owned()), url: None }),
        None => wrong(pointer, "a `data:` URL must be Base64: `data:image/png;base64,…`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(input: Value) -> Result<Input, WrongSetting> {
        Input::of_response(&input)
    }

    #[test]
    fn input_is_a_text_or_what_follows_the_agents_last_words() {
        assert_eq!(read(json!("hi")).unwrap().text, "hi");
        let input = read(json!([
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "1"}]},
            {"role": "user", "content": "two"},
            {"role": "user", "content": [{"type": "input_text", "text": "three"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                {"type": "input_image", "image_url": "https://a.example/b.png"}]},
        ]))
        .unwrap();
        assert_eq!(input.text, "two\n\nthree");
        assert_eq!(input.images[0].data.as_deref(), Some("AAAA"));
        assert_eq!(input.images[1].url.as_deref(), Some("https://a.example/b.png"));
        assert_eq!((input.at.as_str(), input.instructions), ("/4/content", vec!["Be brief.".to_owned()]));
        let earlier: Vec<_> = input.earlier.iter().map(|e| (e.by_agent, e.text.as_str())).collect();
        assert_eq!(earlier, [(false, "one"), (true, "1")]);
    }

    #[test]
    fn answers_name_what_they_answer() {
        let input = read(json!([
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": false, "reason": "no"},
            {"type": "function_call_output", "call_id": "call_1", "output": "{}"},
        ]))
        .unwrap();
        assert_eq!(input.answers[0].answer, Answered::Approval { approve: false, reason: Some("no".into()) });
        assert_eq!(
            (input.answers[1].to.as_str(), &input.answers[1].answer),
            ("call_1", &Answered::Output("{}".into()))
        );
        let chat = Input::of_chat(&[
            json!({"role": "user", "content": "go"}),
            json!({"role": "assistant", "content": null, "tool_calls": []}),
            json!({"role": "tool", "tool_call_id": "call_2", "content": "done"}),
        ])
        .unwrap();
        assert_eq!((chat.text.as_str(), chat.answers[0].to.as_str()), ("", "call_2"));
    }

    #[test]
    fn a_new_thread_has_what_the_client_remembers() {
        let long = "x".repeat(MAX_MESSAGE_BYTES);
        let mut input = Input::of_chat(&[
            json!({"role": "user", "content": long}),
            json!({"role": "assistant", "content": "one"}),
            json!({"role": "user", "content": "two"}),
        ])
        .unwrap();
        input.tell_earlier();
        let earlier =
            "What was said before, as my client remembers it:\n\nYou said: one\n\nWhat I say now:\n\ntwo";
        assert_eq!(input.text, earlier);
    }

    #[test]
    fn wrong_items_are_named_with_what_is_allowed() {
        for (input, pointer) in [
            (json!(7), ""),
            (json!([{"role": "king", "content": "x"}]), "/0/role"),
            (json!([{"role": "user", "content": 7}]), "/0/content"),
            (json!([{"role": "user", "content": [{"type": "input_audio"}]}]), "/0/content/0/type"),
            (
                json!([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]),
                "/0/content/0/image_url",
            ),
            (json!([{"type": "computer_call_output"}]), "/0/type"),
            (json!([{"type": "mcp_approval_response", "approval_request_id": "q"}]), "/0/approve"),
            (json!([{"type": "function_call_output", "output": ""}]), "/0/call_id"),
        ] {
            assert_eq!(read(input.clone()).unwrap_err().pointer, pointer, "{input}");
        }
    }
}
