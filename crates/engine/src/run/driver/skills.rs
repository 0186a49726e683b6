//! Disclosure of skills: before a model call, the texts of the skills that the latest messages call for enter the history, after
//! those messages. What to disclose follows from the history, so a worker that takes the run over discloses nothing twice.
//!
//! Runs without skills skip this; messages that call for none cost no step.

use std::pin::pin;

use houston_domain::frame::MessageBlock;
use houston_domain::history::Entry;
use houston_domain::skill::disclosure::{Disclosure, disclose};
use houston_domain::skill::{SkillSummary, entry};
use houston_store::record::Owner;
use houston_store::skill::SkillText;

use super::RunDriver;
use crate::error::Result;
use crate::run::storage::RunStorage;

/// Bytes of skills that are repeated after a summary has replaced them.
const MAX_REPEATED_BYTES: usize = 16 * 1024;

impl<S: RunStorage> RunDriver<'_, S> {
    /// Commits what the latest messages disclose, if they disclose something.
    pub(super) async fn disclose_skills(&mut self) -> Result<()> {
        let Some(skills) = self.tools.skills.clone() else { return Ok(()) };
        let (history, mark) = (self.run.history(), &self.journal.mark);
        let message = entry::latest_message(history, mark);
        if message.is_empty() {
            return Ok(());
        }
        let read = entry::read_in(history, mark);
        let has_patterns = skills.available().iter().any(|skill| !skill.triggers.patterns.is_empty());
        let disclosed = if has_patterns {
            // Compiling and matching the patterns of a user may take long.
            let skills = skills.clone();
            let find = move || disclose(skills.available(), &message, |name| read.contains(name));
            let found = pin!(houston_meter::compute(self.journal.owner.tenant.0, find));
            match self.journal.signals.until_stopped(found).await? {
                Ok(Ok(found)) => found,
                // Nothing follows in this attempt.
                Ok(Err(_)) | Err(_) => Disclosure::Nothing,
            }
        } else {
            disclose(skills.available(), &message, |name| read.contains(name))
        };
        let frames = match disclosed {
            Disclosure::Nothing => return Ok(()),
            Disclosure::List => vec![framed(entry::list_frame(skills.available()))],
            Disclosure::Texts(nths) => {
                let mut frames = Vec::with_capacity(nths.len());
                for skill in nths.into_iter().filter_map(|nth| skills.available().get(nth)) {
                    frames.extend(self.skill_frame(skill).await?);
                }
                frames
            }
        };
        // A skill that was deleted meanwhile has no text.
        if frames.is_empty() {
            return Ok(());
        }
        let mut step = self.journal.next_step();
        step.frames.clone_from(&frames);
        self.journal.commit(step).await?;
        self.add_frames(frames);
        Ok(())
    }

    /// The texts of the skills that only the first `at` entries of the history have, which a summary will replace.
    pub(super) async fn repeated_skills(&self, at: usize) -> Result<Vec<MessageBlock>> {
        let Some(skills) = &self.tools.skills else { return Ok(Vec::new()) };
        let (replaced, kept): (&[Entry], &[Entry]) = self.run.history().split_at(at);
        let mark = &self.journal.mark;
        let kept = entry::read_in(kept, mark);
        let lost = entry::read_in(replaced, mark);
        let mut frames = Vec::new();
        let mut room = MAX_REPEATED_BYTES;
        for skill in skills
            .available()
            .iter()
            .filter(|skill| lost.contains(&skill.name) && !kept.contains(&skill.name))
        {
            let Some(frame) = self.skill_frame(skill).await? else { continue };
            if let Some(left) = room.checked_sub(frame.text.len()) {
                room = left;
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    /// Adds frames that were committed to what the model is sent.
    pub(super) fn add_frames(&mut self, frames: Vec<MessageBlock>) {
        if !frames.is_empty() {
            let mark = &self.journal.mark;
            self.run.on_frames(frames.into_iter().map(|frame| frame.signed(mark)).collect());
        }
    }

    /// The frame of a skill; `None`: it was deleted.
    async fn skill_frame(&self, skill: &SkillSummary) -> Result<Option<MessageBlock>> {
        let bundled = self.tools.skills.as_ref().and_then(|skills| skills.bundled(skill));
        if let Some(bundled) = bundled {
            let files: Vec<String> = bundled.files.keys().cloned().collect();
            return Ok(Some(framed(entry::frame(&skill.name, &bundled.text, &files))));
        }
        let Owner { tenant, user, .. } = self.journal.owner;
        let (source, name) = (skill.source, &skill.name);
        let read = self.journal.retrying(|storage| storage.skill_text(tenant, user, source, name)).await?;
        Ok(read.map(|SkillText { text, files }| framed(entry::frame(&skill.name, &text, &files))))
    }
}

fn framed(text: String) -> MessageBlock {
    MessageBlock { text, frame: true }
}
