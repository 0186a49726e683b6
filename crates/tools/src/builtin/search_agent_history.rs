//! `search_agent_history`: searches and reads closed sessions.

use chrono::NaiveDate;
use houston_domain::id::SessionId;
use houston_domain::knowledge::MAX_QUERY_CHARS;
use houston_domain::session::{HistoryQuery, Timeframe};
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};

const NAME: &str = "search_agent_history";

/// Searches closed sessions, or reads one. Offered as soon as the agentable has a closed session.
#[derive(Debug)]
pub(super) struct SearchAgentHistory(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    query: Option<String>,
    timeframe: Option<Timeframe>,
    from: Option<NaiveDate>,
    to: Option<NaiveDate>,
    session_id: Option<SessionId>,
    after: Option<i64>,
}

impl Default for SearchAgentHistory {
    fn default() -> Self {
        let timeframes = Timeframe::ALL.map(Timeframe::as_str);
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Your earlier conversations, of which <agent_history> has only a part. With query: the \
                          sessions that fit best, with their summaries; summaries and whole conversations are \
                          searched. With session_id: what was said in that session, page by page."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for, in a few words."},
                    "timeframe": {"type": "string", "enum": timeframes,
                                  "description": "When it was; last_week is since Monday of last week, and so on. \
                                                  Any time when left out."},
                    "from": {"type": "string", "format": "date", "description": "The first day, as 2026-11-22."},
                    "to": {"type": "string", "format": "date", "description": "The last day."},
                    "session_id": {"type": "string", "description": "Read this session instead of searching."},
                    "after": {"type": "integer", "minimum": 0,
                              "description": "With session_id: go on after this position."},
                },
                "additionalProperties": false,
            }),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for SearchAgentHistory {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn offered(&self, situation: Situation) -> bool {
        situation.has_sessions
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { query, timeframe, from, to, session_id, after } = input::read(NAME, input)?;
        let wrong = |what: &str| Err(InvalidInput(format!("{NAME}: {what}")));
        let query = match (query, session_id) {
            (Some(query), None) => {
                if timeframe.is_some() && (from.is_some() || to.is_some()) {
                    return wrong("give `timeframe`, or `from` and `to`, not both");
                }
                if from.zip(to).is_some_and(|(from, to)| to < from) {
                    return wrong("`to` must not be before `from`");
                }
                let query = input::line(NAME, "query", query, MAX_QUERY_CHARS)?;
                HistoryQuery::Search { query, timeframe, from, to }
            }
            (None, Some(session)) => HistoryQuery::Read { session, after: after.unwrap_or(0) },
            (Some(_), Some(_)) => return wrong("give `query` to search, or `session_id` to read, not both"),
            (None, None) => return wrong("give `query` to search, or `session_id` to read"),
        };
        Ok(Plan::Record(Record::SessionHistory(query)))
    }
}
