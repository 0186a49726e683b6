//! Protocols of other clients, each in one module: [`ag_ui`], [`ai_sdk`], [`openai`], [`a2a`]. A dialect finds a thread in its
//! client's words ([`threads`]), posts to it, and translates the event stream ([`Dialect`](crate::events::stream::Dialect)). It
//! decides nothing itself: whatever it posts, answers and cancels is done by the [resources](crate::resources).

pub(crate) mod a2a;
pub(crate) mod ag_ui;
pub(crate) mod ai_sdk;
mod draft;
pub(crate) mod openai;
pub(crate) mod threads;
