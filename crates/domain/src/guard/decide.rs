//! [`decide`] and [`explain`]: the steps of a decision about a call, in their order, and its verdict.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::argument::{ArgumentPath, quoted};
use super::{CompiledGrant, Intent, Layer, LayerKind, Risk, Ruling, ToolFacts, Unattended};
use crate::autonomy::Autonomy;
use crate::tool_call::ToolErrorCode;

/// What may be done with a call.
///
/// ```json
/// {"decision": "ask", "why": "sending something out needs a yes", "risk": "external", "lasting": true,
///  "by": {"layer": "installation", "rule": "profile: external", "decision": "ask"}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What may be done.
    #[serde(flatten)]
    pub decision: Decision,
    /// What decided.
    pub by: DecidedBy,
}

/// What may be done with a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// It is carried out.
    Allow,
    /// A person is asked.
    Ask {
        /// Why, for the person: all reasons, separated by semicolons.
        why: String,
        /// What may go wrong.
        risk: Risk,
        /// Whether a lasting yes is possible.
        lasting: bool,
    },
    /// It is refused.
    Deny {
        /// The kind of failure.
        code: ToolErrorCode,
        /// Why, for the model.
        why: String,
    },
}

/// What decided. Small: each event of a call stores it.
///
/// ```json
/// {"layer": "tenant", "rule": "rule 3: github__create_issue", "decision": "ask"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DecidedBy {
    /// The layer. None for steps that belong to no layer: `pin`, `autonomy: low`, `rule of two`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<LayerKind>,
    /// The rule, the key of the settings, or the step.
    pub rule: String,
    /// What was decided.
    pub decision: Ruling,
}

/// A verdict with all that was looked at, in order: what `houston guard explain` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// The steps. They end with the one that denied, if one did.
    pub steps: Vec<StepTaken>,
}

/// One step, as it was looked at in one layer.
///
/// ```json
/// {"step": "level", "layer": "installation", "name": "jobs/guards.toml", "outcome": "pass", "why": "read ≤ write"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTaken {
    /// The step.
    pub step: Step,
    /// The layer; none for steps that belong to no layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<LayerKind>,
    /// Whose settings the layer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, in a few words.
    pub why: String,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has no objection.
    Pass,
    /// It allows the call, which lifts questions of later steps.
    Allow,
    /// A person must be asked.
    Ask,
    /// The call is refused.
    Deny,
}

names! {
    /// The steps of a decision, in their order.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Step {
        /// The tool exists.
        Tool = "tool",
        /// The agent's reply always passes.
        Reply = "reply",
        /// The tool's definition is the approved one.
        Pin = "pin",
        /// The model has said what the call is for.
        Intent = "intent",
        /// The tool is not switched off.
        Denied = "denied",
        /// The tool is excepted from the next two steps.
        Allowed = "allowed",
        /// The layer's level is at least the tool's.
        Level = "level",
        /// The layer permits the tool's category.
        Category = "category",
        /// Paths are within the workspace and among the layer's.
        Path = "path",
        /// Paths that may hold secrets.
        Sensitive = "sensitive",
        /// Hosts are among the layer's.
        Host = "host",
        /// The layer's rules.
        Rule = "rule",
        /// What the layer says of the risk.
        Profile = "profile",
        /// The number of calls in the last minute.
        Rate = "rate",
        /// The tool asks a person each time.
        EachTime = "each_time",
        /// How far the agent goes without asking.
        Autonomy = "autonomy",
        /// Who has read private data asks before opening an address that the user did not write: it can carry the data away.
        Address = "address",
        /// Who has read what strangers wrote and private data sends nothing out without a yes.
        RuleOfTwo = "rule_of_two",
        /// The lasting yes of a person.
        Grant = "grant",
        /// Whether a person takes part.
        Unattended = "unattended",
    }
}

/// A call that guards decide about.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// The name of the tool. For a call that a tool makes on behalf of the model, the inner one.
    pub tool: &'c str,
    /// The facts of its definition; `None` when there is no such tool.
    pub facts: Option<&'c ToolFacts>,
    /// The arguments, after [`super::clamp`].
    pub input: &'c Value,
    /// The pin of its definition, if it has one.
    pub pin: Option<&'c str>,
    /// Whether its definition is another one than the one that was approved.
    pub pin_changed: bool,
}

/// The situation a call is made in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Situation<'s> {
    /// How far the agent goes without asking.
    pub autonomy: Autonomy,
    /// Calls of the same tool by the same user in the last 60 seconds.
    pub calls_last_minute: u32,
    /// Whether the session has read what strangers wrote.
    pub untrusted_read: bool,
    /// Whether the session has read private data.
    pub private_read: bool,
    /// What the user has written in the session. Empty where no person takes part.
    pub user_texts: &'s [&'s str],
    /// What the model said the call is for.
    pub intent: Option<&'s Intent>,
    /// The lasting yes of people that are in force.
    pub grants: &'s [CompiledGrant],
    /// Whether no person takes part in the run: in tasks, feeds and check-ins.
    pub unattended: bool,
}

impl Situation<'_> {
    /// A run with a person, in which nothing has happened.
    pub fn new(autonomy: Autonomy) -> Self {
        Self { autonomy, ..Self::default() }
    }
}

/// The steps of a decision, if they are kept. `why` is only made when it is.
pub(super) struct Trace(Option<Vec<StepTaken>>);

impl Trace {
    pub(super) fn note(
        &mut self,
        step: Step,
        layer: Option<&Layer>,
        outcome: Outcome,
        why: impl FnOnce() -> String,
    ) {
        if let Some(steps) = &mut self.0 {
            let name = layer.map(|layer| layer.name.clone());
            steps.push(StepTaken { step, layer: layer.map(|layer| layer.kind), name, outcome, why: why() });
        }
    }
}

/// What may be done with a call. `layers` are in order, from the installation's to the lowest.
///
/// The strictest step decides: deny, then ask, then allow. Adding a layer below the others never makes the verdict less
/// strict.
pub fn decide(layers: &[Arc<Layer>], call: &Call<'_>, situation: &Situation<'_>) -> Verdict {
    judge(layers, call, situation, &mut Trace(None))
}

/// Like [`decide`], with all that was looked at.
pub fn explain(layers: &[Arc<Layer>], call: &Call<'_>, situation: &Situation<'_>) -> Explanation {
    let mut trace = Trace(Some(Vec::new()));
    let verdict = judge(layers, call, situation, &mut trace);
    Explanation { verdict, steps: trace.0.unwrap_or_default() }
}

fn judge(layers: &[Arc<Layer>], call: &Call<'_>, situation: &Situation<'_>, trace: &mut Trace) -> Verdict {
    let (Some(top), Some(own)) = (layers.first(), call.facts) else {
        let (code, why) = if layers.is_empty() {
            (ToolErrorCode::ConfigError, "no guards are loaded, so no tool may be called".to_owned())
        } else {
            (ToolErrorCode::NotFound, format!("there is no tool {}", quoted(call.tool)))
        };
        trace.note(Step::Tool, None, Outcome::Deny, || why.clone());
        return denied(None, "tool".to_owned(), code, why);
    };
    trace.note(Step::Tool, None, Outcome::Pass, || "it exists".to_owned());
    let facts = own.in_force(layers, call.tool);
    if facts.reply {
        trace.note(Step::Reply, None, Outcome::Allow, || "it is the agent's reply to its user".to_owned());
        return allowed(None, "reply".to_owned());
    }
    let first = top.tool(call.tool).and_then(|top| top.risk).unwrap_or(own.risk);
    let risks = risks(layers, call, first, situation);
    let risk = risks.iter().copied().max().unwrap_or(facts.risk);
    let mut judge = Judge {
        layers,
        call,
        situation,
        facts: &facts,
        risk,
        risks,
        normal: normal_input(&facts, call.input),
        asks: Vec::new(),
        lifted: Vec::new(),
        trace,
    };
    match judge.check() {
        Err(denied) => *denied,
        Ok(()) => judge.conclude(top),
    }
}

/// The risks that the tool, the lower layers and the intent claim, none below the tool's. A profile is asked about each
/// of them: if only the highest counted, a claim could lead from a risk that a profile denies to one that it allows.
fn risks(layers: &[Arc<Layer>], call: &Call<'_>, first: Risk, situation: &Situation<'_>) -> Vec<Risk> {
    let lower = layers.iter().skip(1).filter_map(|layer| layer.tool(call.tool)?.risk);
    let intent = situation.intent.and_then(|intent| intent.risk);
    let mut risks = vec![first];
    for risk in lower.chain(intent).filter(|risk| *risk > first) {
        if !risks.contains(&risk) {
            risks.push(risk);
        }
    }
    risks
}

/// The arguments with their paths as tools open them; `None` if they are written like that.
fn normal_input(facts: &ToolFacts, input: &Value) -> Option<Value> {
    let mut normal: Option<Value> = None;
    let paths = facts.path_at.iter().chain(&facts.folder_at);
    for (at, value) in paths.filter_map(|at| Some((at, input.pointer(at)?))) {
        let opened = as_opened(value);
        if opened != *value
            && let Some(written) = normal.get_or_insert_with(|| input.clone()).pointer_mut(at)
        {
            *written = opened;
        }
    }
    normal
}

/// A path, or those in a list, as tools open it. One that leads out of the workspace is denied whatever rules say.
fn as_opened(value: &Value) -> Value {
    match value {
        Value::String(raw) => ArgumentPath::new(raw).within.unwrap_or_else(|| raw.clone()).into(),
        Value::Array(list) => list.iter().map(as_opened).collect(),
        other => other.clone(),
    }
}

/// A question that a step asks.
struct Question {
    layer: Option<LayerKind>,
    rule: String,
    why: String,
    lasting: bool,
}

/// One decision.
pub(super) struct Judge<'a> {
    pub(super) layers: &'a [Arc<Layer>],
    pub(super) call: &'a Call<'a>,
    pub(super) situation: &'a Situation<'a>,
    /// In force.
    pub(super) facts: &'a ToolFacts,
    /// The highest of `risks`.
    pub(super) risk: Risk,
    pub(super) risks: Vec<Risk>,
    /// The arguments with their paths in normal form, if that is another one.
    pub(super) normal: Option<Value>,
    asks: Vec<Question>,
    /// The rules that allow the call, with the indexes of their layers.
    pub(super) lifted: Vec<(usize, &'a str)>,
    pub(super) trace: &'a mut Trace,
}

/// A step that denies ends the decision.
pub(super) type Checked<T = ()> = Result<T, Box<Verdict>>;

impl<'a> Judge<'a> {
    fn check(&mut self) -> Checked {
        self.pin()?;
        self.intent()?;
        let layers = self.layers;
        for layer in layers {
            self.switched_off(layer)?;
        }
        for layer in layers {
            self.level_and_category(layer)?;
        }
        self.paths()?;
        self.hosts()?;
        for (nth, layer) in layers.iter().enumerate() {
            self.rules(nth, layer)?;
        }
        for (nth, layer) in layers.iter().enumerate() {
            self.profile(nth, layer)?;
        }
        self.rate()?;
        self.each_time();
        self.autonomy();
        self.address();
        self.rule_of_two();
        Ok(())
    }

    pub(super) fn pass(&mut self, step: Step, layer: Option<&Layer>, why: impl FnOnce() -> String) {
        self.trace.note(step, layer, Outcome::Pass, why);
    }

    pub(super) fn deny(
        &mut self,
        step: Step,
        layer: Option<&Layer>,
        rule: impl Into<String>,
        code: ToolErrorCode,
        why: String,
    ) -> Checked {
        self.trace.note(step, layer, Outcome::Deny, || why.clone());
        Err(Box::new(denied(layer.map(|layer| layer.kind), rule.into(), code, why)))
    }

    pub(super) fn refuse(
        &mut self,
        step: Step,
        layer: &Layer,
        rule: impl Into<String>,
        why: String,
    ) -> Checked {
        self.deny(step, Some(layer), rule, ToolErrorCode::PermissionDenied, why)
    }

    pub(super) fn ask(
        &mut self,
        step: Step,
        layer: Option<&Layer>,
        rule: impl Into<String>,
        why: String,
        lasting: bool,
    ) {
        self.trace.note(step, layer, Outcome::Ask, || why.clone());
        // What destroys something is asked about each time.
        let lasting = lasting && self.risk != Risk::Destructive;
        self.asks.push(Question { layer: layer.map(|layer| layer.kind), rule: rule.into(), why, lasting });
    }

    /// The questions that no grant answers, as a verdict.
    fn conclude(mut self, top: &'a Layer) -> Verdict {
        let Call { tool, input, pin, .. } = *self.call;
        let mut granted = None;
        if self.asks.iter().any(|ask| ask.lasting) {
            granted = self.situation.grants.iter().find(|grant| grant.covers(tool, input, pin));
        }
        if let Some(grant) = granted {
            let why = || format!("a person has allowed {} for good", quoted(&grant.tool));
            self.trace.note(Step::Grant, None, Outcome::Allow, why);
            self.asks.retain(|ask| !ask.lasting);
        }
        let asks = std::mem::take(&mut self.asks);
        // A question without a lasting yes says most about what is at stake.
        if let Some(by) = asks.iter().find(|ask| !ask.lasting).or(asks.first()) {
            return self.question(by, &asks);
        }
        if let Some(grant) = granted {
            return allowed(None, format!("grant: {}", grant.tool));
        }
        match self.lifted.first() {
            Some((nth, label)) => allowed(self.layers.get(*nth).map(|layer| layer.kind), (*label).to_owned()),
            None => allowed(Some(top.kind), format!("profile: {}", self.risk.as_str())),
        }
    }

    /// All questions as one, or the refusal if there is no person to ask.
    fn question(&mut self, by: &Question, asks: &[Question]) -> Verdict {
        let mut whys: Vec<&str> = vec![&by.why];
        for ask in asks {
            if !whys.contains(&ask.why.as_str()) {
                whys.push(&ask.why);
            }
        }
        let why = whys.join("; ");
        let refusing = self.layers.iter().find(|layer| layer.unattended == Unattended::Deny);
        if let Some(layer) = refusing.filter(|_| self.situation.unattended) {
            let why = format!("{why}: this needs a person's yes, and no person takes part in this run");
            self.trace.note(Step::Unattended, Some(layer), Outcome::Deny, || why.clone());
            let rule = format!("unattended: {}", by.rule);
            return denied(Some(layer.kind), rule, ToolErrorCode::PermissionDenied, why);
        }
        let lasting = asks.iter().all(|ask| ask.lasting);
        Verdict {
            decision: Decision::Ask { why, risk: self.risk, lasting },
            by: DecidedBy { layer: by.layer, rule: by.rule.clone(), decision: Ruling::Ask },
        }
    }
}

fn denied(layer: Option<LayerKind>, rule: String, code: ToolErrorCode, why: String) -> Verdict {
    let by = DecidedBy { layer, rule, decision: Ruling::Deny };
    Verdict { decision: Decision::Deny { code, why }, by }
}

fn allowed(layer: Option<LayerKind>, rule: String) -> Verdict {
    Verdict { decision: Decision::Allow, by: DecidedBy { layer, rule, decision: Ruling::Allow } }
}
