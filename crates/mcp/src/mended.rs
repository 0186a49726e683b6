//! What a process writes, mended line by line: a line that the transport could not read would be dropped, and the call that it
//! answers would wait until its time is over, although it was carried out.
//!
//! | line | becomes |
//! |---|---|
//! | bytes that are no UTF-8, half of a surrogate pair | U+FFFD in their place |
//! | an error without a code or a message | an error with both |
//! | an answer without `"jsonrpc": "2.0"` | one with it |
//! | a broken message, while exactly one question is open | an error, the answer to that question |
//!
//! All other lines stay as they are: programs print what they like besides.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::unfold;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio_util::io::{InspectWriter, StreamReader};

/// The ids of the questions that were sent and not answered, as JSON.
#[derive(Debug, Clone, Default)]
pub(crate) struct Open(Arc<Mutex<BTreeSet<String>>>);

/// What says what a message is.
#[derive(Deserialize)]
struct Head {
    jsonrpc: Option<Value>,
    id: Option<Value>,
    method: Option<Value>,
    error: Option<Value>,
}

impl Open {
    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a message to the server.
    fn sent(&self, line: &[u8]) {
        let Ok(head) = serde_json::from_slice::<Head>(line) else { return };
        match (head.id, head.method) {
            (Some(id), Some(_)) => _ = self.ids().insert(id.to_string()),
            // What was cancelled is not answered.
            (None, Some(method)) if method == "notifications/cancelled" => {
                let message: Value = serde_json::from_slice(line).unwrap_or_default();
                self.ids().remove(&message["params"]["requestId"].to_string());
            }
            _ => {}
        }
    }

    /// A line of the server, without its end, as the transport can read it; `None`: as it is.
    fn mended(&self, line: &[u8]) -> Option<Vec<u8>> {
        let text = String::from_utf8_lossy(line);
        let whole = with_whole_pairs(&text);
        let head = match serde_json::from_str::<Head>(&whole) {
            Ok(head) => head,
            Err(error) => {
                let is_broken = error.is_syntax() || error.is_eof();
                let is_message = whole.trim_start().starts_with('{') && whole.contains("\"jsonrpc\"");
                return if is_broken && is_message { self.broken(&error) } else { None };
            }
        };
        let is_answer = head.id.is_some() && head.method.is_none();
        if is_answer && let Some(id) = &head.id {
            self.ids().remove(&id.to_string());
        }
        let is_whole_error = head.error.as_ref().is_none_or(|error| {
            error["code"].as_i64().is_some_and(|code| i32::try_from(code).is_ok())
                && error["message"].is_string()
        });
        let is_current = head.jsonrpc.is_some_and(|version| version == "2.0");
        if is_answer && !(is_whole_error && is_current) {
            let mut message: Value = serde_json::from_str(&whole).ok()?;
            message["jsonrpc"] = json!("2.0");
            if !is_whole_error && let Some(error) = head.error {
                message["error"] = complete(&error);
                // An answer has one of both.
                message.as_object_mut()?.remove("result");
            }
            return Some(message.to_string().into_bytes());
        }
        let is_same = matches!((&text, &whole), (Cow::Borrowed(_), Cow::Borrowed(_)));
        if is_same { None } else { Some(whole.into_owned().into_bytes()) }
    }

    /// The answer to the only open question, in the place of a line that cannot be read.
    fn broken(&self, error: &serde_json::Error) -> Option<Vec<u8>> {
        let mut open = self.ids();
        let id = open.first().filter(|_| open.len() == 1)?.clone();
        open.clear();
        let id: Value = serde_json::from_str(&id).ok()?;
        let message = format!("the server's answer cannot be read: {error}");
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32700, "message": message}});
        Some(answer.to_string().into_bytes())
    }
}

/// An error with a code and a message, made of what a server calls an error.
fn complete(error: &Value) -> Value {
    let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(-32603);
    let message = match (error, &error["message"]) {
        (_, Value::String(message)) | (Value::String(message), _) => message.clone(),
        _ => format!("the server gave no reason: {error}"),
    };
    let mut complete = json!({"code": code, "message": message});
    if let Some(data) = error.get("data") {
        complete["data"] = data.clone();
    }
    complete
}

/// The text of JSON with U+FFFD for each half of a surrogate pair that stands alone.
fn with_whole_pairs(text: &str) -> Cow<'_, str> {
    let may_have_one = text.contains("\\ud") || text.contains("\\uD");
    if !may_have_one {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let (mut mended, mut from, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        at += match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.push_str(&text[from..at]);
                mended.push_str("\\ufffd");
                from = at + 6;
                6
            }
            // Also of an escaped backslash.
            _ => 2,
        };
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    mended.push_str(&text[from.min(text.len())..]);
    Cow::Owned(mended)
}

/// The output of a process with mended lines of at most `most` bytes. A longer one is the end: dropping it, as the transport
/// would, leaves the call that it answers without an answer. `exceeded` becomes true then.
pub(crate) fn mended(
    output: impl AsyncRead + Send + Unpin + 'static,
    open: Open,
    most: usize,
    exceeded: Arc<AtomicBool>,
) -> impl AsyncRead + Send + Unpin + 'static {
    let lines = unfold(BufReader::new(output), move |mut output| {
        let (open, exceeded) = (open.clone(), Arc::clone(&exceeded));
        async move {
            let mut line = Vec::new();
            if let Err(error) = (&mut output).take(most as u64 + 1).read_until(b'\n', &mut line).await {
                return Some((Err(error), output));
            }
            if line.len() > most {
                exceeded.store(true, Ordering::Relaxed);
                return None;
            }
            // A line without an end is no message.
            line.pop_if(|last| *last == b'\n')?;
            let mut line = open.mended(&line).unwrap_or(line);
            line.push(b'\n');
            Some((Ok(Cursor::new(line)), output))
        }
    });
    StreamReader::new(Box::pin(lines))
}

/// The input of a process, which notes the questions that are written to it.
pub(crate) fn noted<W: AsyncWrite>(input: W, open: Open) -> InspectWriter<W, impl FnMut(&[u8])> {
    let mut line = Vec::new();
    InspectWriter::new(input, move |bytes: &[u8]| {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                open.sent(&std::mem::take(&mut line));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn open(ids: &[i32]) -> Open {
        let open = Open::default();
        ids.iter().for_each(|id| {
            open.sent(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#).as_bytes())
        });
        open
    }

    fn read(open: &Open, line: &[u8]) -> Option<Value> {
        let line = open.mended(line).unwrap_or_else(|| line.to_vec());
        serde_json::from_slice(&line).ok()
    }

    #[test]
    fn answers_that_could_not_be_read_are_mended() {
        for (line, pointer, expected) in [
            (br#"{"jsonrpc":"2.0","id":1,"result":"a\ud83db"}"#.as_slice(), "/result", json!("a\u{fffd}b")),
            (
                br#"{"jsonrpc":"2.0","id":1,"result":"\uD83D\uDE00\uDE00\\ud83d"}"#,
                "/result",
                json!("😀\u{fffd}\\ud83d"),
            ),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"caf\xe9\"}", "/result", json!("caf\u{fffd}")),
            (br#"{"jsonrpc":"2.0","id":1,"error":{"code":-1}}"#, "/error/code", json!(-1)),
            (
                br#"{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}"#,
                "/error",
                json!({"code": -32603, "message": "no"}),
            ),
            (br#"{"jsonrpc":"2.0","id":1,"error":"boom"}"#, "/error/message", json!("boom")),
            (br#"{"id":1,"result":{}}"#, "/jsonrpc", json!("2.0")),
        ] {
            let open = open(&[1, 2]);
            let message = read(&open, line).unwrap_or_else(|| panic!("{}", line.escape_ascii()));
            assert_eq!(message.pointer(pointer), Some(&expected), "{}", line.escape_ascii());
            assert!(message["error"].is_null() || message["error"]["message"].is_string());
            assert_eq!(open.ids().len(), 1, "it is answered");
        }
    }

    #[test]
    fn broken_line_answers_the_only_question() {
        let broken = br#"{"jsonrpc":"2.0","id":1,"result":{"text":"a"#;
        let answer = read(&open(&[7]), broken).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32700)));
        assert!(open(&[]).mended(broken).is_none());
        assert!(open(&[1, 2]).mended(broken).is_none(), "nobody knows which it answers");
        let cancelled = open(&[1, 2]);
        cancelled.sent(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
        assert_eq!(read(&cancelled, broken).unwrap()["id"], 2);
        for noise in [b"listening on 8080".as_slice(), b"{'debug': 1}", b"{not json}", b"", b"caf\xe9"] {
            let open = open(&[7]);
            assert!(open.mended(noise).is_none() && open.ids().len() == 1, "{}", noise.escape_ascii());
        }
    }

    proptest! {
        /// What is whole stays as it is, byte for byte; whatever comes in whatever pieces, lines stay lines.
        #[test]
        fn whole_messages_are_not_touched(text: String, id: u16, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let line = json!({"jsonrpc": "2.0", "id": id, "result": {"text": text}}).to_string();
            prop_assert!(open(&[]).mended(line.as_bytes()).is_none());
            let mended = open(&[1]).mended(&bytes).unwrap_or_default();
            prop_assert!(bytes.contains(&b'\n') || !mended.contains(&b'\n'));
        }
    }

    #[tokio::test]
    async fn output_ends_at_a_line_that_is_too_long() {
        for (text, expected, is_exceeded) in [
            ("1234\n1234\n", "1234\n1234\n", false),
            ("1234\n12345\n1\n", "1234\n", true),
            ("1\n123456\n1\n", "1\n", true),
            ("1234567", "", true),
        ] {
            for cut in 0..text.len() {
                let (first, second) = text.as_bytes().split_at(cut);
                let exceeded = Arc::<AtomicBool>::default();
                let mut mended = mended(first.chain(second), Open::default(), 5, Arc::clone(&exceeded));
                let mut all = String::new();
                mended.read_to_string(&mut all).await.unwrap();
                assert_eq!((&*all, exceeded.load(Ordering::Relaxed)), (expected, is_exceeded), "{cut}");
            }
        }
    }

    #[tokio::test]
    async fn lines_are_mended_on_their_way() {
        let open = Open::default();
        let (ours, theirs) = tokio::io::duplex(64);
        let (mut output, mut input) = tokio::io::split(theirs);
        let (from, to) = tokio::io::split(ours);
        let (mut from, mut to) = (mended(from, open.clone(), 99, Arc::default()), noted(to, open.clone()));
        to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"x\"}\n").await.unwrap();
        to.flush().await.unwrap();
        assert_eq!(open.ids().len(), 1);
        let mut asked = [0; 39];
        output.read_exact(&mut asked).await.unwrap();
        let write = async move {
            let lines = b"hello\n{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":\"\xff\"}\n{\"jsonrpc\"";
            input.write_all(lines).await.unwrap();
            input.shutdown().await.unwrap();
        };
        let mut all = String::new();
        let ((), read) = tokio::join!(write, from.read_to_string(&mut all));
        read.unwrap();
        assert_eq!(all, "hello\n{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":\"\u{fffd}\"}\n");
    }
}
