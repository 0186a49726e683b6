//! The steps of a decision that look at a call: what each of them passes, asks about, or denies.

use std::borrow::Cow;
use std::sync::Arc;

use super::argument::{ArgumentPath, host_of, is_given, quoted, values_at};
use super::decide::{Checked, Judge};
use super::layer::{Rule, is_stricter};
use super::{Intents, Layer, Outcome, Risk, Ruling, Step};
use crate::tool_call::ToolErrorCode;

/// Characters of patterns × bytes of paths that a call may be compared with: some milliseconds, a tenth of a second at worst.
const PATH_WORK: usize = 32 * 1024 * 1024;

impl<'a> Judge<'a> {
    pub(super) fn pin(&mut self) -> Checked {
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

    pub(super) fn intent(&mut self) -> Checked {
        let requiring = self.layers.iter().find(|layer| layer.intents == Intents::Required);
        match (requiring, self.situation.intent) {
            (Some(layer), None) => {
                let (tool, risk) = (self.call.tool, self.risk);
                let why = format!(
                    "say what this call is for, then call again: write <intent tool=\"{tool}\" risk=\"{risk}\">why</intent> \
                     before it"
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

    pub(super) fn switched_off(&mut self, layer: &'a Layer) -> Checked {
        if let Some(pattern) = layer.denied.first_match(self.call.tool) {
            let why = format!("{} is switched off", self.call.tool);
            return self.refuse(Step::Denied, layer, format!("denied: {pattern}"), why);
        }
        self.pass(Step::Denied, Some(layer), || "it is not switched off".to_owned());
        Ok(())
    }

    pub(super) fn level_and_category(&mut self, layer: &'a Layer) -> Checked {
        let (tool, level, category) = (self.call.tool, self.facts.level, self.facts.category);
        if let Some(pattern) = layer.allowed.first_match(tool) {
            let why = || format!("`{pattern}` excepts it from level and category");
            self.trace.note(Step::Allowed, Some(layer), Outcome::Allow, why);
            return Ok(());
        }
        if let Some(most) = layer.level {
            if most < level {
                let why = format!("{tool} needs the level {level}; the highest here is {most}");
                return self.refuse(Step::Level, layer, "level", why);
            }
            self.pass(Step::Level, Some(layer), || format!("{level} ≤ {most}"));
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

    pub(super) fn paths(&mut self) -> Checked {
        let (facts, input) = (self.facts, self.call.input);
        let patterns: usize = self.layers.iter().map(|layer| layer.paths.chars + layer.sensitive.chars).sum();
        let named = facts.path_at.iter().chain(&facts.folder_at);
        let bytes: usize = named.flat_map(|at| values_at(input, at)).map(|raw| raw.len()).sum();
        if bytes.saturating_mul(patterns) > PATH_WORK {
            let why = format!(
                "it names paths of {bytes} bytes, which is too much to compare with the patterns here: name at most {} bytes \
                 in one call",
                PATH_WORK / patterns.max(1)
            );
            return self.deny(Step::Path, None, "path", ToolErrorCode::PermissionDenied, why);
        }
        for at in &facts.path_at {
            let mut raw = values_at(input, at);
            if raw.is_empty() {
                // Without a path, tools take the workspace itself.
                raw.push(Cow::Borrowed(""));
            }
            for raw in raw {
                let path = self.path_within(&raw)?;
                self.allowed_path(&raw, &path)?;
                self.sensitive_path(&raw, &path);
            }
        }
        for at in &facts.folder_at {
            for raw in values_at(input, at) {
                let path = self.path_within(&raw)?;
                self.sensitive_path(&raw, &path);
            }
        }
        Ok(())
    }

    /// The path, if it does not lead out of the workspace.
    fn path_within(&mut self, raw: &str) -> Checked<ArgumentPath> {
        let path = ArgumentPath::new(raw);
        if path.within.is_none() {
            let why = format!(
                "{} is outside of the workspace: give a path relative to it, without `..` beyond it",
                quoted(raw)
            );
            self.deny(Step::Path, None, "path", ToolErrorCode::PermissionDenied, why)?;
        }
        Ok(path)
    }

    fn allowed_path(&mut self, raw: &str, path: &ArgumentPath) -> Checked {
        let within = path.within.as_deref().unwrap_or_default();
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
        Ok(())
    }

    fn sensitive_path(&mut self, raw: &str, path: &ArgumentPath) {
        for layer in self.layers {
            if let Some(pattern) = layer.sensitive.first_match(&path.comparable) {
                let why = format!("{} may hold secrets", quoted(raw));
                self.ask(Step::Sensitive, Some(layer), format!("sensitive: {pattern}"), why, false);
            }
        }
    }

    pub(super) fn hosts(&mut self) -> Checked {
        let limits = |layer: &&Arc<Layer>| !layer.hosts.is_empty();
        if !self.layers.iter().any(|layer| limits(&layer)) {
            return Ok(());
        }
        if self.reaches_no_host() {
            self.pass(Step::Host, None, || "it reaches no host".to_owned());
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

    /// Whether the call has what its tool takes in the place of an address, and no address. It is not enough that none is found:
    /// settings say where one is looked for.
    fn reaches_no_host(&self) -> bool {
        let (facts, input) = (self.facts, self.call.input);
        let has = |at: &str| !values_at(input, at).is_empty();
        facts.in_place_of_host.is_some_and(has) && !facts.host_at.iter().any(|at| has(at))
    }

    fn host(&mut self, layer: &'a Layer, raw: &str, host: Option<&str>) -> Checked {
        let Some(host) = host else {
            let why =
                format!("the host of {} cannot be read; allowed are {}", quoted(raw), layer.hosts.list());
            return self.refuse(Step::Host, layer, "hosts", why);
        };
        if !layer.hosts.is_match(host) {
            let why = format!("the host {} is not allowed; allowed are {}", quoted(host), layer.hosts.list());
            return self.refuse(Step::Host, layer, "hosts", why);
        }
        self.pass(Step::Host, Some(layer), || format!("{} is allowed", quoted(host)));
        Ok(())
    }

    /// The rule of a layer about this call. Another spelling of a path must not lead past a rule that restricts, nor into
    /// one that allows: of both spellings, the stricter result counts.
    fn rule_of(&self, layer: &'a Layer) -> Option<&'a Rule> {
        let written = layer.strictest_rule(self.call.tool, self.call.input);
        let Some(normal) = &self.normal else { return written };
        let opened = layer.strictest_rule(self.call.tool, normal);
        let restricts = |rule: &&Rule| rule.decide != Ruling::Allow;
        match (written, opened) {
            (Some(one), Some(other)) if is_stricter(other, one) => Some(other),
            (Some(one), Some(_)) => Some(one),
            (one, other) => one.or(other).filter(restricts),
        }
    }

    pub(super) fn rules(&mut self, nth: usize, layer: &'a Layer) -> Checked {
        let Some(rule) = self.rule_of(layer) else {
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

    pub(super) fn profile(&mut self, nth: usize, layer: &'a Layer) -> Checked {
        let Some((ruling, risk)) = layer.strictest_of_risks(&self.risks) else { return Ok(()) };
        let rule = || format!("profile: {}", risk.as_str());
        match ruling {
            Ruling::Deny => {
                let why = format!("{} is not allowed here", risk.in_words());
                return self.refuse(Step::Profile, layer, rule(), why);
            }
            Ruling::Ask if !self.is_lifted_in(nth) => {
                self.ask(
                    Step::Profile,
                    Some(layer),
                    rule(),
                    format!("{} needs a yes", risk.in_words()),
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

    pub(super) fn rate(&mut self) -> Checked {
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
    pub(super) fn autonomy(&mut self) {
        let autonomy = self.situation.autonomy;
        let rule = || format!("autonomy: {}", autonomy.as_str());
        if Risk::without_asking(autonomy).is_some_and(|free| self.risk <= free) {
            let risk = self.risk;
            self.pass(Step::Autonomy, None, || format!("{}: {} calls pass", rule(), risk.as_str()));
        } else if self.is_lifted_in(0) {
            self.pass(Step::Autonomy, None, || format!("{}; a rule allows it", rule()));
        } else {
            let why = format!("the agent asks before {}", self.risk.in_words());
            self.ask(Step::Autonomy, None, rule(), why, true);
        }
    }

    /// Like the question of the autonomy, this one is lifted by a rule of the highest layer only.
    pub(super) fn address(&mut self) {
        if !self.facts.sends_out || !self.situation.private_read || self.facts.host_at.is_empty() {
            return;
        }
        let input = self.call.input;
        let composed = |raw: &Cow<'_, str>| !is_given(raw, self.situation.user_texts);
        let found = self.facts.host_at.iter().flat_map(|at| values_at(input, at)).find(composed);
        match found {
            Some(_) if self.is_lifted_in(0) => {
                self.pass(Step::Address, None, || "the user did not write it; a rule allows it".to_owned());
            }
            Some(raw) => {
                let raw = quoted(&raw);
                let why = format!("{raw} can carry private data to its host, and the user did not write it");
                self.ask(Step::Address, None, "address", why, true);
            }
            None => self.pass(Step::Address, None, || "the user wrote it".to_owned()),
        }
    }

    pub(super) fn each_time(&mut self) {
        if self.facts.asks_each_time {
            let why = "it changes what the agents of the user can do";
            self.ask(Step::EachTime, None, "each time", why.to_owned(), false);
        }
    }

    pub(super) fn rule_of_two(&mut self) {
        if !self.facts.sends_out || self.reaches_no_host() {
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
}

/// Whether the layers name this host as one that may be reached: at least one limits hosts, and none leaves it out.
pub fn names_host(layers: &[Arc<Layer>], host: &str) -> bool {
    let mut limits = layers.iter().filter(|layer| !layer.hosts.is_empty()).peekable();
    limits.peek().is_some() && limits.all(|layer| layer.hosts.is_match(host))
}
