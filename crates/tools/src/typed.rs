//! [`BuiltIn`]: a tool that is the type of its arguments. [`About`] says what is known before any call, [`Access`] what a call
//! does with Houston's own tables.

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::capability::Capability;
use houston_domain::field::Entity;
use houston_domain::guard::ToolFacts;
use houston_domain::snippet::SnippetTool;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::record::RecordTx;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::input::{InvalidInput, Refusal};
use crate::outside::Outside;
use crate::record::{NewTaskInfo, Record, RecordFuture};
use crate::tool::{CallContext, Plan, SharedTool, Situation, Tool};
use crate::{input, schema};

/// What is known of a tool before any call. The macro `built_in!` implements it, a line for each tool.
pub(crate) trait About {
    /// The name. It is written here only; other code uses this constant.
    const NAME: &'static str;
    /// What may be repeated after a crash.
    const EFFECT: EffectClass;
    /// How long a call may take.
    const TIMEOUT: Duration = Duration::from_secs(120);
    /// What it enables an agent to do, for the prompt.
    const CAPABILITY: Option<Capability> = None;
    /// What an agent must have to be offered it.
    const NEEDS: Option<Needs> = None;
    /// Whether code may call it.
    const IS_FOR_CODE: bool = true;
    /// Whether its arguments may contain expressions of plans.
    const TAKES_EXPRESSIONS: bool = false;
    /// The thing it changes: the table of its fields describes those of the arguments that have their names.
    const CHANGES: Option<Entity> = None;

    /// What guards rely on.
    fn facts() -> ToolFacts {
        ToolFacts::of_effect(Self::EFFECT)
    }
}

/// A tool, implemented by the type of its arguments. Their schema follows from the type ([`schema`]): what documents the
/// type describes the tool to the model, what documents a field describes that. `Given` is what its calls need besides their arguments.
pub(crate) trait BuiltIn<Given = Outside>: About + DeserializeOwned + JsonSchema + 'static {
    /// Changes what depends on the installation.
    fn adapt(_definition: &mut ToolDefinition, _given: &Given) {}

    /// Whether the installation has what it takes.
    fn is_available(_given: &Given) -> bool {
        true
    }

    /// What it needs for code that may call `tools`; none unless it runs code.
    fn calling(_given: &Given, _tools: &[ToolDefinition]) -> Option<Given> {
        None
    }

    /// See [`Tool::snippet_tool`].
    fn snippet_tool(_given: &Given, _tool: &SnippetTool) -> Option<SharedTool> {
        None
    }

    /// What to do. Pure: nothing happens before the plan is carried out.
    fn plan(self, context: &CallContext, given: &Given) -> Result<Plan, Refusal>;
}

/// A tool whose arguments are all that its call needs.
impl<T: Access + About + DeserializeOwned + JsonSchema + 'static> BuiltIn for T {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        self.check(context).map(|()| Plan::record(self, context))
    }
}

/// What an agent must have to be offered a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// A kind that reaches other conversations of its user. Without it the tool is offered, and says so.
    Reach,
    /// A kind that makes plans.
    Plans,
    /// A closed session.
    Sessions,
    /// A skill.
    Skills,
}

/// The tool with what its calls need.
pub(crate) fn shared<T: BuiltIn<Given>, Given: Clone + Send + Sync + 'static>(given: Given) -> SharedTool {
    let (mut schema, description) = schema::brief::<T>();
    if let Some(entity) = T::CHANGES {
        schema["properties"] = entity.properties(schema["properties"].take());
    }
    let mut definition = ToolDefinition {
        name: T::NAME.to_owned(),
        description,
        input_schema: schema.into(),
        effect: T::EFFECT,
        timeout: T::TIMEOUT,
    };
    T::adapt(&mut definition, &given);
    Arc::new(Typed::<T, Given> { definition, given, of: PhantomData })
}

struct Typed<T, Given> {
    definition: ToolDefinition,
    given: Given,
    of: PhantomData<fn() -> T>,
}

impl<T: BuiltIn<Given>, Given: Clone + Send + Sync + 'static> Tool for Typed<T, Given> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn offered(&self, situation: Situation) -> bool {
        let has_needs = match T::NEEDS {
            None | Some(Needs::Reach) => true,
            Some(Needs::Plans) => situation.makes_plans,
            Some(Needs::Sessions) => situation.has_sessions,
            Some(Needs::Skills) => situation.has_skills,
        };
        has_needs && T::is_available(&self.given)
    }

    fn is_for_code(&self) -> bool {
        T::IS_FOR_CODE
    }

    fn calling(&self, tools: &[ToolDefinition]) -> Option<SharedTool> {
        T::calling(&self.given, tools).map(shared::<T, Given>)
    }

    fn snippet_tool(&self, tool: &SnippetTool) -> Option<SharedTool> {
        T::snippet_tool(&self.given, tool)
    }

    fn facts(&self) -> ToolFacts {
        T::facts()
    }

    fn capability(&self) -> Option<Capability> {
        T::CAPABILITY
    }

    fn takes_expressions(&self) -> bool {
        T::TAKES_EXPRESSIONS
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let arguments: T = input::read(T::NAME, input).map_err(|InvalidInput(reason)| match T::CHANGES {
            // The refusal of an unknown field names what may be changed, and by whom.
            Some(entity) if reason.contains("unknown field") => {
                InvalidInput(format!("{reason}; {}", entity.updatable()))
            }
            _ => InvalidInput(reason),
        })?;
        arguments.plan(context, &self.given).or_else(|refusal| match refusal {
            Refusal::Invalid(reason) => Err(InvalidInput(format!("{}: {reason}", T::NAME))),
            Refusal::Answer(response) => Ok(Plan::Answer(response)),
            Refusal::Store(error) => Err(InvalidInput(format!("{}: {error}", T::NAME))),
        })
    }
}

/// What the tools of this crate implement in place of [`Record`], mostly for the arguments of a call; [`Plan::record`] adds
/// the context. What it writes is written with the step: exactly once.
pub(crate) trait Access: Debug + Send + Sync {
    /// See [`Record::has_preview`].
    const HAS_PREVIEW: bool = false;

    /// Checks the arguments before there is a transaction. Called only for a type that is the arguments of its tool.
    fn check(&self, _context: &CallContext) -> Result<(), Refusal> {
        Ok(())
    }

    /// See [`Record::apply`]: what the model reads of a call that succeeds. It reads a refusal, too.
    fn apply(
        &self,
        context: &CallContext,
        tx: RecordTx<'_>,
    ) -> impl Future<Output = Result<String, Refusal>> + Send;

    /// See [`Record::preview`]. A call that will be refused has nothing to show.
    fn preview(&self, _tx: RecordTx<'_>) -> impl Future<Output = Result<Option<String>, Refusal>> + Send {
        std::future::ready(Ok(None))
    }

    /// See [`Record::asks`].
    fn asks(&self) -> Option<String> {
        None
    }

    /// See [`Record::task`].
    fn task(&self) -> Option<NewTaskInfo<'_>> {
        None
    }
}

/// A call with the context in which it was planned: a repetition has the same context.
struct Call<T> {
    access: T,
    context: CallContext,
}

impl<T: Debug> Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.access.fmt(f)
    }
}

impl<T: Access> Record for Call<T> {
    fn apply<'t>(&'t self, tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            match self.access.apply(&self.context, tx).await {
                Ok(text) => Ok(ToolResponse::success(text)),
                Err(Refusal::Answer(response)) => Ok(response),
                Err(Refusal::Invalid(reason)) => {
                    Ok(ToolResponse::failure(ToolErrorCode::ValidationError, reason))
                }
                Err(Refusal::Store(error)) => Err(error),
            }
        })
    }

    fn has_preview(&self) -> bool {
        T::HAS_PREVIEW
    }

    fn preview<'t>(&'t self, tx: RecordTx<'t>) -> BoxFuture<'t, houston_store::Result<Option<String>>> {
        Box::pin(async move {
            match self.access.preview(tx).await {
                Ok(preview) => Ok(preview),
                Err(Refusal::Store(error)) => Err(error),
                Err(Refusal::Answer(_) | Refusal::Invalid(_)) => Ok(None),
            }
        })
    }

    fn asks(&self) -> Option<String> {
        self.access.asks()
    }

    fn task(&self) -> Option<NewTaskInfo<'_>> {
        self.access.task()
    }
}

impl Plan {
    /// An access to Houston's own tables, by a call in this context.
    pub(crate) fn record(access: impl Access + 'static, context: &CallContext) -> Self {
        Self::Record(Arc::new(Call { access, context: context.clone() }))
    }
}
