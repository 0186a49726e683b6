//! What is entered of an answer, on every wire and for every way in which it ends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use houston_domain::clock::SystemClock;
use houston_domain::step::ModelCall;
use houston_llm::{
    BreakerPolicy, Choice, Guards, Ledger, Model, Request, RetryBudgetPolicy, RetryPolicy, Secret, Timeouts,
    Wire, connect, metered,
};

use crate::caller::{entries, http};
use crate::server::{Connection, server};

/// The pieces of an answer on a wire: what precedes its text, the text, and what ends it.
struct Pieces {
    wire: Wire,
    /// Whether the provider reports the tokens of the request before the answer.
    reports: bool,
    begin: &'static str,
    text: &'static str,
    end: &'static str,
}

static WIRES: [Pieces; 6] = [
    Pieces {
        wire: Wire::Anthropic,
        reports: true,
        begin: "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5000,\"output_tokens\":1}}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        text: "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello, how are you?\"}}\n\n",
        end: "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
    },
    Pieces {
        wire: Wire::OpenAiChat,
        reports: false,
        begin: "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        text: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello, how are you?\"}}]}\n\n",
        end: "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5000,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n",
    },
    Pieces {
        wire: Wire::OpenAiResponses,
        reports: false,
        begin: "data: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\"}}\n\n",
        text: "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\"}}\n\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hello, how are you?\"}\n\n",
        end: "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":5000,\"output_tokens\":9}}}\n\n",
    },
    Pieces {
        wire: Wire::Gemini,
        reports: true,
        begin: "data: {\"candidates\":[{\"content\":{\"parts\":[]}}],\"usageMetadata\":{\"promptTokenCount\":5000}}\n\n",
        text: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hello, how are you?\"}]}}]}\n\n",
        end: "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":5000,\"candidatesTokenCount\":9}}\n\n",
    },
    Pieces {
        wire: Wire::Cohere,
        reports: false,
        begin: "data: {\"type\":\"message-start\",\"id\":\"1\"}\n\n",
        text: "data: {\"type\":\"content-start\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"type\":\"text\",\"text\":\"\"}}}}\n\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"Hello, how are you?\"}}}}\n\n",
        end: "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":{\"tokens\":{\"input_tokens\":5000,\"output_tokens\":9}}}}\n\ndata: [DONE]\n\n",
    },
    Pieces {
        wire: Wire::Ollama,
        reports: false,
        begin: "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n",
        text: "{\"message\":{\"role\":\"assistant\",\"content\":\"Hello, how are you?\"},\"done\":false}\n",
        end: "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":5000,\"eval_count\":9}\n",
    },
];

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    /// The connection is closed after the text, before it, before anything.
    CutAfterText,
    CutBeforeText,
    CutAtOnce,
    /// Nothing more comes for too long.
    StallsAfterText,
    StallsBeforeText,
    StallsAtOnce,
    /// The caller does not wait any more.
    DroppedAfterText,
    DroppedBeforeText,
    DroppedAtOnce,
    DroppedUnanswered,
    Refused,
}

static ENDS: [End; 12] = [
    End::Complete,
    End::CutAfterText,
    End::CutBeforeText,
    End::CutAtOnce,
    End::StallsAfterText,
    End::StallsBeforeText,
    End::StallsAtOnce,
    End::DroppedAfterText,
    End::DroppedBeforeText,
    End::DroppedAtOnce,
    End::DroppedUnanswered,
    End::Refused,
];

impl End {
    fn has_text(self) -> bool {
        matches!(self, Self::CutAfterText | Self::StallsAfterText | Self::DroppedAfterText)
    }

    fn has_begun(self) -> bool {
        self.has_text()
            || matches!(self, Self::CutBeforeText | Self::StallsBeforeText | Self::DroppedBeforeText)
    }

    fn is_dropped(self) -> bool {
        matches!(
            self,
            Self::DroppedAfterText | Self::DroppedBeforeText | Self::DroppedAtOnce | Self::DroppedUnanswered
        )
    }

    /// Whether the provider is paid.
    fn is_paid(self) -> bool {
        !matches!(self, Self::Refused | Self::CutAtOnce)
    }

    fn serve(self, pieces: &Pieces, connection: &mut Connection) {
        match self {
            // The server closes the connection, so that the next call must not be sent on it.
            Self::Refused => {
                return connection.answer("429 Too Many Requests", "connection: close\r\n", "{}");
            }
            Self::DroppedUnanswered => return connection.wait_for_close(),
            _ => connection.begin(),
        }
        let mut send = |text: &str| connection.send(&format!("{:x}\r\n{text}\r\n", text.len()));
        if self == Self::Complete || self.has_begun() {
            send(pieces.begin);
        }
        if self == Self::Complete || self.has_text() {
            send(pieces.text);
        }
        match self {
            Self::Complete => {
                send(pieces.end);
                connection.send("0\r\n\r\n");
            }
            Self::CutAfterText | Self::CutBeforeText | Self::CutAtOnce => {}
            _ => connection.wait_for_close(),
        }
    }
}

/// A model on the wire of `pieces` whose calls end as in `ends`, one after the other.
fn model(pieces: &'static Pieces, ends: &'static [End]) -> Arc<dyn Model> {
    let nth = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (base, _) = server(move |mut connection| {
        let nth = nth.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        ends[nth.min(ends.len() - 1)].serve(pieces, &mut connection);
    });
    let timeouts = Timeouts { idle: Duration::from_secs(4), ..Timeouts::default() };
    let choice = Choice {
        base_url: Some(base),
        wire: Some(pieces.wire),
        key: Some(Secret::new("k")),
        ..Choice::new("openai", "gpt-5-mini")
    };
    connect(&choice, &http(timeouts), &|_| None).unwrap()
}

/// Makes a call and reads it until it ends, or until nothing has come for a while if the caller is to drop it.
async fn entered(model: &dyn Model, is_dropped: bool) -> Vec<ModelCall> {
    let ledger = Ledger::default();
    let entries = entries();
    let request = Request {
        entries: &entries,
        max_output_tokens: 10,
        input_tokens: Some(700),
        ledger: Some(&ledger),
        ..Request::default()
    };
    // What comes without a pause has come then.
    let pause = if is_dropped { Duration::from_secs(2) } else { Duration::from_secs(60) };
    if let Ok(Ok(mut stream)) = tokio::time::timeout(pause, model.stream(&request)).await {
        while let Ok(Some(Ok(_))) = tokio::time::timeout(pause, stream.next()).await {}
    }
    ledger.take().into_iter().map(|used| used.call(1, chrono::DateTime::UNIX_EPOCH)).collect()
}

#[tokio::test]
async fn every_answer_that_was_begun_is_entered_once_on_each_wire() {
    let cases = WIRES.iter().flat_map(|pieces| ENDS.iter().map(move |end| (pieces, end)));
    // Built before any call is made: building one takes so long that the pauses of others would pass meanwhile.
    let models: Vec<_> =
        cases.map(|(pieces, end)| (pieces, end, metered(model(pieces, std::slice::from_ref(end))))).collect();
    let tried = models.iter().map(|(pieces, end, model)| async move {
        (*pieces, **end, entered(&**model, end.is_dropped()).await)
    });
    for (pieces, end, calls) in futures_util::future::join_all(tried).await {
        let case = format!("{:?}, {end:?}: {calls:?}", pieces.wire);
        assert_eq!(calls.len(), usize::from(end.is_paid()), "{case}");
        let Some(call) = calls.first() else { continue };
        let is_reported = end == End::Complete || pieces.reports && end.has_begun();
        assert_eq!(call.usage.input_tokens, if is_reported { 5_000 } else { 700 }, "{case}");
        let output = match end {
            End::Complete => 9..=9,
            end if end.has_text() => 4..=6,
            _ => 0..=1,
        };
        assert!(output.contains(&call.usage.output_tokens), "{case}");
        assert_eq!(call.estimated, !is_reported || end.has_text(), "{case}");
        assert!(call.usage.cost.is_some(), "{case}");
    }
}

#[tokio::test]
async fn retries_enter_each_answer_that_was_begun() {
    let policy = RetryPolicy { retries: 2, delay: Duration::ZERO, longest_wait: Duration::ZERO };
    for pieces in &WIRES {
        let model = model(pieces, &[End::CutBeforeText, End::Refused, End::Complete]);
        let (breaker, budget) = (BreakerPolicy::default(), RetryBudgetPolicy::default());
        let guards = Guards::new(breaker, budget, Arc::new(SystemClock), Arc::default());
        let calls = entered(&*guards.guard(model, policy), false).await;
        let estimated: Vec<_> = calls.iter().map(|call| call.estimated).collect();
        assert_eq!(estimated, [!pieces.reports, false], "{:?}: {calls:?}", pieces.wire);
    }
}
