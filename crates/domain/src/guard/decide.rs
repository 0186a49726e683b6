//! [`decide`] and [`explain`]: the steps of a decision, in their order.

use std::borrow::Cow;
use std::sync::Arc;

use super::argument::{quoted, values_at};
use super::host::host_of;
use super::path::ArgumentPath;
use super::pattern::Patterns;
use super::trace::{NoTrace, Trace};
use super::{
    Call, DecidedBy, Decision, Explanation, Intents, Layer, LayerKind, Outcome, Risk, Ruling, Situation,
    Step, ToolFacts, Unattended, Verdict,
};
use crate::tool_call::ToolErrorCode;

/// What may be done with a call. `layers` are in order, from the installation's to the lowest.
///
/// The strictest step decides: deny, then ask, then allow. Adding a layer below the others never makes the verdict less
/// strict.
#[must_use]
pub fn decide(layers: &[Arc<Layer>], call: &Call<'_>, situation: &Situation<'_>) -> Verdict {
    judge(layers, call, situation, &mut NoTrace)
}

/// Like [`decide`], with all that was looked at.
#[must_use]
pub fn explain(layers: &[Arc<Layer>], call: &Call<'_>, situation: &Situation<'_>) -> Explanation {
    let mut steps = Vec::new();
    let verdict = judge(layers, call, situation, &mut steps);
    Explanation { verdict, steps }
}

fn judge(
    layers: &[Arc<Layer>],
    call: &Call<'_>,
    situation: &Situation<'_>,
    trace: &mut impl Trace,
) -> Verdict {
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
    let risks =
        risks(layers, call, top.tool(call.tool).and_then(|top| top.risk).unwrap_or(own.risk), situation);
    let risk = risks.iter().copied().max().unwrap_or(facts.risk);
    let judge = Judge {
        layers,
        call,
        situation,
        facts: &facts,
        risk,
        risks,
        asks: Vec::new(),
        lifted: Vec::new(),
        trace,
    };
    judge.run(top)
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

/// A question that a step asks.
struct Question {
    layer: Option<LayerKind>,
    rule: String,
    why: String,
    lasting: bool,
}

/// One decision.
struct Judge<'a, T> {
    layers: &'a [Arc<Layer>],
    call: &'a Call<'a>,
    situation: &'a Situation<'a>,
    /// In force.
    facts: &'a ToolFacts,
    /// The highest of `risks`.
    risk: Risk,
    risks: Vec<Risk>,
    asks: Vec<Question>,
    /// The rules that allow the call, with the indexes of their layers.
    lifted: Vec<(usize, &'a str)>,
    trace: &'a mut T,
}

/// A step that denies ends the decision.
type Checked = Result<(), Box<Verdict>>;

impl<'a, T: Trace> Judge<'a, T> {
    fn run(mut self, top: &'a Layer) -> Verdict {
        if let Err(denied) = self.check() {
            return *denied;
        }
        self.conclude(top)
    }

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
        self.autonomy();
        self.rule_of_two();
        Ok(())
    }

    fn pass(&mut self, step: Step, layer: Option<&Layer>, why: impl FnOnce() -> String) {
        self.trace.note(step, layer, Outcome::Pass, why);
    }

    fn deny(
        &mut self,
        step: Step,
        layer: Option<&Layer>,
        rule: impl Into<String>,
        code: ToolErrorCode,
        why: String,
    ) -> Checked {
        self.trace.note(step, layer, Outcome::Deny, || why.clone());
        Err(Box::new(denied(layer.map(Layer::kind), rule.into(), code, why)))
    }

    fn refuse(&mut self, step: Step, layer: &Layer, rule: impl Into<String>, why: String) -> Checked {
        self.deny(step, Some(layer), rule, ToolErrorCode::PermissionDenied, why)
    }

    fn ask(
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
        self.asks.push(Question { layer: layer.map(Layer::kind), rule: rule.into(), why, lasting });
    }

    fn pin(&mut self) -> Checked {
        if self.call.pin_changed {
            let why = format!(
                "{} has changed since it was approved: a person must approve it again",
                self.call.tool
            );
            return self.deny(Step::Pin, None, "pin", ToolErrorCode::PermissionDenied, why);
        }
        self.pass(Step::Pin, None, || "its definition is the approved one".to_owned());
        Ok(())
    }

    fn intent(&mut self) -> Checked {
        let requiring = self.layers.iter().find(|layer| layer.intents == Intents::Required);
        match (requiring, self.situation.intent) {
            (Some(layer), None) => {
                let tool = self.call.tool;
                let why = format!(
                    "say what this call is for, then call again: write <intent tool=\"{tool}\" \
                     risk=\"{}\">why</intent> before it",
                    self.risk.as_str()
                );
                self.deny(Step::Intent, Some(layer), "intents", ToolErrorCode::LlmAssistRequired, why)
            }
            (_, Some(intent)) => {
                let claims = self.risks.iter().map(|risk| risk.as_str()).collect::<Vec<_>>().join(", ");
                self.pass(Step::Intent, None, || format!("{}; risk: {claims}", quoted(&intent.why)));
                Ok(())
            }
            (None, None) => {
                self.pass(Step::Intent, None, || "none is required".to_owned());
                Ok(())
            }
        }
    }

    fn switched_off(&mut self, layer: &'a Layer) -> Checked {
        if let Some(pattern) = layer.denied.first_match(self.call.tool) {
            let why = format!("{} is switched off", self.call.tool);
            return self.refuse(Step::Denied, layer, format!("denied: {pattern}"), why);
        }
        self.pass(Step::Denied, Some(layer), || "it is not switched off".to_owned());
        Ok(())
    }

    fn level_and_category(&mut self, layer: &'a Layer) -> Checked {
        let (tool, level, category) = (self.call.tool, self.facts.level, self.facts.category);
        if let Some(pattern) = layer.allowed.first_match(tool) {
            let why = || format!("`{pattern}` excepts it from level and category");
            self.trace.note(Step::Allowed, Some(layer), Outcome::Allow, why);
            return Ok(());
        }
        if let Some(most) = layer.level {
            if most < level {
                let why = format!(
                    "{tool} needs the level {}; the highest here is {}",
                    level.as_str(),
                    most.as_str()
                );
                return self.refuse(Step::Level, layer, "level", why);
            }
            self.pass(Step::Level, Some(layer), || format!("{} ≤ {}", level.as_str(), most.as_str()));
        }
        if let Some(categories) = &layer.categories {
            if !categories.contains(&category) {
                let why = format!("tools of the category {} are not allowed here", category.as_str());
                return self.refuse(Step::Category, layer, "categories", why);
            }
            self.pass(Step::Category, Some(layer), || format!("{} is allowed", category.as_str()));
        }
        Ok(())
    }

    fn paths(&mut self) -> Checked {
        let (facts, input) = (self.facts, self.call.input);
        for at in &facts.path_at {
            let mut raw = values_at(input, at);
            if raw.is_empty() {
                // Without a path, tools take the workspace itself.
                raw.push(Cow::Borrowed(""));
            }
            for raw in raw {
                self.path(&raw)?;
            }
        }
        Ok(())
    }

    fn path(&mut self, raw: &str) -> Checked {
        let path = ArgumentPath::new(raw);
        let Some(within) = &path.within else {
            let why = format!(
                "{} is outside of the workspace: give a path relative to it, without `..` beyond it",
                quoted(raw)
            );
            return self.deny(Step::Path, None, "path", ToolErrorCode::PermissionDenied, why);
        };
        for layer in self.layers {
            if layer.paths.is_empty() {
                continue;
            }
            if !layer.paths.is_match(within) {
                let why =
                    format!("{} is not among the paths allowed here: {}", quoted(raw), layer.paths.list());
                return self.refuse(Step::Path, layer, "paths", why);
            }
            self.pass(Step::Path, Some(layer), || format!("{} is allowed", quoted(within)));
        }
        for layer in self.layers {
            if let Some(pattern) = layer.sensitive.first_match(&path.folded) {
                let why = format!("{} may hold secrets", quoted(raw));
                self.ask(Step::Sensitive, Some(layer), format!("sensitive: {pattern}"), why, false);
            }
        }
        Ok(())
    }

    fn hosts(&mut self) -> Checked {
        let limits = |layer: &&Arc<Layer>| !layer.hosts.is_empty();
        if !self.layers.iter().any(|layer| limits(&layer)) {
            return Ok(());
        }
        let (facts, input) = (self.facts, self.call.input);
        for at in &facts.host_at {
            let mut raw = values_at(input, at);
            if raw.is_empty() {
                raw.push(Cow::Borrowed(""));
            }
            for raw in raw {
                let host = host_of(&raw);
                for layer in self.layers.iter().filter(limits) {
                    self.host(layer, &raw, host.as_deref())?;
                }
            }
        }
        Ok(())
    }

    fn host(&mut self, layer: &'a Layer, raw: &str, host: Option<&str>) -> Checked {
        let list = |hosts: &Patterns| hosts.list();
        let Some(host) = host else {
            let why =
                format!("the host of {} cannot be read; allowed are {}", quoted(raw), list(&layer.hosts));
            return self.refuse(Step::Host, layer, "hosts", why);
        };
        if !layer.hosts.is_match(host) {
            let why = format!("the host {} is not allowed; allowed are {}", quoted(host), list(&layer.hosts));
            return self.refuse(Step::Host, layer, "hosts", why);
        }
        self.pass(Step::Host, Some(layer), || format!("{} is allowed", quoted(host)));
        Ok(())
    }

    fn rules(&mut self, nth: usize, layer: &'a Layer) -> Checked {
        let Some(rule) = layer.strictest_rule(self.call.tool, self.call.input) else {
            self.pass(Step::Rule, Some(layer), || "no rule is about this call".to_owned());
            return Ok(());
        };
        match rule.decide {
            Ruling::Allow => {
                self.trace.note(Step::Rule, Some(layer), Outcome::Allow, || {
                    format!("{}: {}", rule.label, rule.why)
                });
                self.lifted.push((nth, &rule.label));
            }
            Ruling::Ask => {
                self.ask(Step::Rule, Some(layer), rule.label.as_str(), rule.why.clone(), rule.lasting);
            }
            Ruling::Deny => return self.refuse(Step::Rule, layer, rule.label.as_str(), rule.why.clone()),
        }
        Ok(())
    }

    fn profile(&mut self, nth: usize, layer: &'a Layer) -> Checked {
        let Some((ruling, risk)) = layer.strictest_of_risks(&self.risks) else { return Ok(()) };
        let rule = || format!("profile: {}", risk.as_str());
        match ruling {
            Ruling::Deny => {
                let why = format!("{} calls are not allowed here", risk.as_str());
                return self.refuse(Step::Profile, layer, rule(), why);
            }
            Ruling::Ask if !self.is_lifted_in(nth) => {
                self.ask(
                    Step::Profile,
                    Some(layer),
                    rule(),
                    format!("{} calls need a yes", risk.as_str()),
                    true,
                );
            }
            Ruling::Ask => {
                self.pass(Step::Profile, Some(layer), || format!("{}: ask; a rule allows it", rule()))
            }
            Ruling::Allow => self.pass(Step::Profile, Some(layer), || format!("{}: allow", rule())),
        }
        Ok(())
    }

    fn is_lifted_in(&self, layer: usize) -> bool {
        self.lifted.iter().any(|(nth, _)| *nth == layer)
    }

    fn rate(&mut self) -> Checked {
        let calls = self.situation.calls_last_minute;
        let Some(most) = self.facts.rate_per_min else { return Ok(()) };
        if calls >= most {
            let tool = self.call.tool;
            let layer = self
                .layers
                .iter()
                .find(|layer| layer.tool(tool).is_some_and(|settings| settings.rate_per_min == Some(most)));
            let why = format!("{tool} may be called {most} times a minute: wait, or do something else");
            return self.deny(Step::Rate, layer.map(Arc::as_ref), "rate", ToolErrorCode::RateLimited, why);
        }
        self.pass(Step::Rate, None, || format!("{calls} of {most} calls in the last minute"));
        Ok(())
    }

    /// Only a rule of the highest layer lifts this question: autonomy belongs to no layer, so for every other one it is
    /// a question from above.
    fn autonomy(&mut self) {
        let autonomy = self.situation.autonomy;
        let rule = || format!("autonomy: {}", autonomy.as_str());
        if Risk::without_asking(autonomy).is_some_and(|free| self.risk <= free) {
            let risk = self.risk;
            self.pass(Step::Autonomy, None, || format!("{}: {} calls pass", rule(), risk.as_str()));
        } else if self.is_lifted_in(0) {
            self.pass(Step::Autonomy, None, || format!("{}; a rule allows it", rule()));
        } else {
            let why = format!("the agent asks before {} calls", self.risk.as_str());
            self.ask(Step::Autonomy, None, rule(), why, true);
        }
    }

    fn rule_of_two(&mut self) {
        if !self.facts.sends_out {
            return;
        }
        if self.situation.untrusted_read && self.situation.private_read {
            let why = "it would send something out after reading both private data and what strangers wrote";
            self.ask(Step::RuleOfTwo, None, "rule of two", why.to_owned(), false);
        } else {
            let why =
                || "it sends out, but has not read both private data and what strangers wrote".to_owned();
            self.pass(Step::RuleOfTwo, None, why);
        }
    }

    /// The questions that no grant answers, as a verdict.
    fn conclude(mut self, top: &'a Layer) -> Verdict {
        let Call { tool, input, pin, .. } = *self.call;
        let mut granted = None;
        if self.asks.iter().any(|ask| ask.lasting) {
            granted = self.situation.grants.iter().find(|grant| grant.covers(tool, input, pin));
        }
        if let Some(grant) = granted {
            let why = || format!("a person has allowed {} for good", quoted(grant.tool()));
            self.trace.note(Step::Grant, None, Outcome::Allow, why);
            self.asks.retain(|ask| !ask.lasting);
        }
        let asks = std::mem::take(&mut self.asks);
        // A question without a lasting yes says most about what is at stake.
        if let Some(by) = asks.iter().find(|ask| !ask.lasting).or(asks.first()) {
            return self.question(by, &asks);
        }
        if let Some(grant) = granted {
            return allowed(None, format!("grant: {}", grant.tool()));
        }
        match self.lifted.first() {
            Some((nth, label)) => {
                allowed(self.layers.get(*nth).map(|layer| layer.kind()), (*label).to_owned())
            }
            None => allowed(Some(top.kind()), format!("profile: {}", self.risk.as_str())),
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
        if let Some(layer) = refusing.filter(|_| !self.situation.attended) {
            let why = format!("{why}: this needs a person's yes, and no person takes part in this run");
            self.trace.note(Step::Unattended, Some(layer), Outcome::Deny, || why.clone());
            let rule = format!("unattended: {}", by.rule);
            return denied(Some(layer.kind()), rule, ToolErrorCode::PermissionDenied, why);
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
