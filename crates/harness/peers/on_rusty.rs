//! The agent of `cargo xtask bench --peers` on Rusty: a graph of one node, which asks the model and reads its stream.
//!
//! Arguments: the address to listen on, the URL of the database, the URL of the model.

use std::sync::Arc;

use rusty_agent_runtime::prelude::*;
use rusty_agent_server::{GraphRegistry, ServerConfig, serve};
use serde_json::json;

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, database, model] = &arguments[..] else { return Err("three arguments, please".into()) };
    let model = Arc::new(OpenAiCompatibleClient::new(model, None, "bench"));
    let mut graph = GraphBuilder::new();
    graph.add_node("ask", move |context: NodeContext| {
        let model = Arc::clone(&model);
        async move {
            let question = context.state().get("question").and_then(|text| text.as_str()).unwrap_or_default();
            let messages = [ChatMessage::user(question)];
            let response = model.chat_stream(&messages, &[], &mut |_| ()).await?;
            Ok(NodeOutput::update("answer", json!(response.message.content)))
        }
    });
    graph.set_entry_point("ask");
    let channels = StateSpec::new().channel("question", Reducer::Overwrite).channel("answer", Reducer::Overwrite);
    let mut registry = GraphRegistry::new();
    registry.register("agent", graph.compile()?, channels);
    serve(registry, ServerConfig::new(address.parse()?, "store").with_postgres(database)).await?;
    Ok(())
}
