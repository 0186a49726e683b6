//! A model that carries out every order it reads, also those of strangers, and the orders.

use std::sync::{Arc, Mutex};

use houston_testkit::model_server::{Call, Reply};
use serde_json::{Value, json};

/// What each user's note holds, and no one else may learn.
pub(crate) const SECRET: &str = "blue-heron-4711";
/// In an order, it is replaced by the secret.
pub(crate) const STOLEN: &str = "STOLEN";

/// Calls that the model is ordered to make. A text has the number of an order, which every conversion leaves as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orders(Arc<Mutex<Vec<Value>>>);

impl Orders {
    /// Adds an order; returns the text that gives it.
    pub(crate) fn add(&self, tool: &str, input: &Value) -> String {
        let mut orders = self.0.lock().unwrap();
        orders.push(json!({"tool": tool, "input": input}));
        format!("ORDER{}END", orders.len() - 1)
    }

    /// The orders in a text.
    fn given(&self, text: &str) -> Vec<Value> {
        let orders = self.0.lock().unwrap();
        let rests = text.split("ORDER").skip(1);
        rests
            .filter_map(|rest| orders.get(rest.split("END").next()?.parse::<usize>().ok()?).cloned())
            .collect()
    }
}

/// All texts of a value.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone() + "\n",
        Value::Array(list) => list.iter().map(texts).collect(),
        Value::Object(fields) => fields.values().map(texts).collect(),
        _ => String::new(),
    }
}

/// Carries out the first order anywhere in the request that it has not carried out yet.
pub(crate) fn obey(orders: &Orders, call: &Call) -> Reply {
    let body = call.json();
    if call.tools().is_empty() {
        return Reply::text("A title");
    }
    let messages = body["messages"].as_array().unwrap();
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        messages.iter().partition(|message| message["role"] == "assistant");
    let read: String = others.into_iter().chain([&body["tools"]]).map(texts).collect();
    let calls = own.into_iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let made: Vec<Value> = calls
        .map(|call| {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            let input: Value = serde_json::from_str(arguments).unwrap();
            json!({"tool": call["function"]["name"], "input": input})
        })
        .collect();
    let stolen = if read.contains(SECRET) { SECRET } else { "nothing" };
    let mut wanted = orders
        .given(&read)
        .into_iter()
        .map(|order| serde_json::from_str::<Value>(&order.to_string().replace(STOLEN, stolen)).unwrap());
    match wanted.find(|order| !made.contains(order)) {
        Some(order) => Reply::tool(order["tool"].as_str().unwrap(), order["input"].clone()),
        None => Reply::tool("send_message", json!({"content": "Done."})),
    }
}
