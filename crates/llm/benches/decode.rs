//! Decoding speed and allocations per token: `cargo bench -p houston-llm --features fuzzing`.
//!
//! Each stream has [`TOKENS`] events of one token each, as its provider sends them, read in chunks of 4 KiB.
//! Allocations divided by [`TOKENS`] are those per token.

use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher};
use houston_llm::Wire;
use houston_llm::fuzzing::{WIRES, decode};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const TOKENS: usize = 1000;
/// Size of the chunks, as read from a socket.
const PIECE: usize = 4096;

fn main() {
    divan::main();
}

#[divan::bench(args = WIRES)]
fn text(bencher: Bencher<'_, '_>, wire: &Wire) {
    let bytes = stream(*wire);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .counter(ItemsCount::new(TOKENS))
        .bench(|| decode(*wire, bytes.chunks(PIECE)));
}

/// A provider's event for one token, with `$` in place of the token.
fn token(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => {
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"$\"}}\n\n"
        }
        Wire::OpenAiChat => {
            "data: {\"id\":\"chatcmpl-CSPyi9mYmCjFRZp7ESMcXTDk\",\"object\":\"chat.completion.chunk\",\"created\":1764000000,\"model\":\"gpt-5-mini\",\"system_fingerprint\":null,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"$\"},\"finish_reason\":null}]}\n\n"
        }
        Wire::OpenAiResponses => {
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":7,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"$\",\"logprobs\":[]}\n\n"
        }
        Wire::Gemini => {
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"$\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":9},\"modelVersion\":\"gemini-2.5-flash\"}\n\n"
        }
        Wire::Cohere => {
            "event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"$\"}}}}\n\n"
        }
        Wire::Ollama => {
            "{\"model\":\"gpt-oss:20b\",\"created_at\":\"2026-11-22T09:00:00Z\",\"message\":{\"role\":\"assistant\",\"content\":\"$\"},\"done\":false}\n"
        }
    }
}

/// The events before and after the tokens.
fn around(wire: Wire) -> (&'static str, &'static str) {
    match wire {
        Wire::Anthropic => (
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        Wire::OpenAiChat => (
            "",
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        ),
        Wire::OpenAiResponses => (
            "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
        ),
        Wire::Gemini => ("", "data: {\"candidates\":[{\"finishReason\":\"STOP\",\"index\":0}]}\n\n"),
        Wire::Cohere => (
            "",
            "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":{}}}\n\n",
        ),
        Wire::Ollama => (
            "",
            "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
        ),
    }
}

fn stream(wire: Wire) -> Vec<u8> {
    let (before, after) = around(wire);
    let tokens = (0..TOKENS).map(|number| token(wire).replace('$', &format!(" tok{number:03}")));
    let bytes = format!("{before}{}{after}", tokens.collect::<String>()).into_bytes();
    let (events, error) = decode(wire, bytes.chunks(PIECE));
    assert!(error.is_none() && events.len() > TOKENS, "{wire:?}: {error:?} after {} events", events.len());
    bytes
}
