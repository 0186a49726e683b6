//! A tool from a closure: the model is sent a schema that follows from the type of its input.
#![expect(clippy::print_stdout, reason = "a program prints")]

use houston::{Agent, Context, EffectClass, ToolError, ToolErrorCode, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where, and in which unit.
#[derive(Deserialize, JsonSchema)]
struct Place {
    /// A city, in English.
    city: String,
    /// Celsius when left out.
    unit: Option<Unit>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Celsius,
    Fahrenheit,
}

#[derive(Serialize)]
struct Weather {
    sky: &'static str,
    degrees: f64,
}

async fn weather(place: Place, _: Context) -> Result<Weather, ToolError> {
    let celsius = match place.city.as_str() {
        "Rome" => 24.0,
        "Oslo" => 7.0,
        other => return Err(ToolError::new(ToolErrorCode::NotFound, format!("no station in {other}"))),
    };
    let degrees = match place.unit.unwrap_or(Unit::Celsius) {
        Unit::Celsius => celsius,
        Unit::Fahrenheit => celsius * 1.8 + 32.0,
    };
    Ok(Weather { sky: "clear", degrees })
}

#[tokio::main]
async fn main() -> Result<(), houston::Error> {
    // Class `read`: it may be called again after a crash. Without it, a call is never repeated.
    let weather = tool("weather", "The weather of a city now.", weather).effect(EffectClass::Read);
    let agent = Agent::builder().instructions("You plan trips.").tool(weather).build().await?;
    println!("{}", agent.prompt("Where is it warmer, in Rome or in Oslo?").await?.text);
    agent.shutdown().await
}
