//! Profiles: facts about a user in five lists of short sentences, which all their agents read and change.

use serde::{Deserialize, Serialize};

/// Maximum length of one entry of a profile, in bytes.
pub const MAX_PROFILE_ENTRY_BYTES: usize = 500;

names! {
    /// A list of a profile.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum ProfileList {
        /// Who the user is.
        Facts = "facts",
        /// How they like things done.
        Preferences = "preferences",
        /// How they want to be addressed.
        CommunicationStyle = "communication_style",
        /// What they care about.
        Interests = "interests",
        /// What they want to achieve.
        Aims = "aims",
    }
}

/// The lists of a profile: `{"facts": ["lives in Graz"], "preferences": [], …}`.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ProfileLists))]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Who the user is.
    pub facts: Vec<String>,
    /// How they like things done.
    pub preferences: Vec<String>,
    /// How they want to be addressed.
    pub communication_style: Vec<String>,
    /// What they care about.
    pub interests: Vec<String>,
    /// What they want to achieve.
    pub aims: Vec<String>,
    /// Entries that a session wrote which had read what strangers wrote. Runs of the user count as having read it, too.
    #[serde(skip)]
    pub untrusted: Vec<String>,
}

impl Profile {
    /// Forgets the marks of entries that are not there any more.
    pub fn forget_marks(&mut self) {
        let mut marks = std::mem::take(&mut self.untrusted);
        marks.retain(|mark| ProfileList::ALL.iter().any(|list| self.list(*list).contains(mark)));
        marks.sort_unstable();
        marks.dedup();
        self.untrusted = marks;
    }

    /// Whether a session wrote this entry which had read what strangers wrote.
    pub fn is_untrusted(&self, entry: &String) -> bool {
        self.untrusted.contains(entry)
    }

    /// The given list.
    pub fn list(&self, list: ProfileList) -> &Vec<String> {
        match list {
            ProfileList::Facts => &self.facts,
            ProfileList::Preferences => &self.preferences,
            ProfileList::CommunicationStyle => &self.communication_style,
            ProfileList::Interests => &self.interests,
            ProfileList::Aims => &self.aims,
        }
    }

    /// The given list, mutable.
    pub fn list_mut(&mut self, list: ProfileList) -> &mut Vec<String> {
        match list {
            ProfileList::Facts => &mut self.facts,
            ProfileList::Preferences => &mut self.preferences,
            ProfileList::CommunicationStyle => &mut self.communication_style,
            ProfileList::Interests => &mut self.interests,
            ProfileList::Aims => &mut self.aims,
        }
    }

    /// Changes one list, which may have `max_entries` entries. `untrusted`: the session has read what strangers wrote. An
    /// entry that is removed or replaced takes its mark with it.
    ///
    /// # Errors
    /// [`ProfileChangeError`] when the list is full or has no such entry; the profile is unchanged.
    pub fn change(
        &mut self,
        list: ProfileList,
        change: &ProfileChange,
        max_entries: u32,
        untrusted: bool,
    ) -> Result<(), ProfileChangeError> {
        let max = max_entries as usize;
        let entries = self.list_mut(list);
        let position = |entry: &String| entries.iter().position(|existing| existing.trim() == entry.trim());
        match change {
            ProfileChange::Add(entry) if position(entry).is_some() => return Ok(()),
            ProfileChange::Add(_) if entries.len() >= max => {
                return Err(ProfileChangeError::Full { list: list.as_str(), max });
            }
            ProfileChange::Add(entry) => entries.push(entry.clone()),
            ProfileChange::Replace { old, new } => {
                let at = position(old).ok_or(ProfileChangeError::NoSuchEntry { list: list.as_str() })?;
                entries[at].clone_from(new);
            }
            ProfileChange::Remove(old) => {
                let at = position(old).ok_or(ProfileChangeError::NoSuchEntry { list: list.as_str() })?;
                entries.remove(at);
            }
        }
        if let ProfileChange::Add(new) | ProfileChange::Replace { new, .. } = change
            && untrusted
        {
            self.untrusted.push(new.clone());
        }
        self.forget_marks();
        Ok(())
    }
}

/// A change of one list of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileChange {
    /// Adds an entry, unless it exists already.
    Add(String),
    /// Replaces the text of an entry.
    Replace {
        /// The current entry.
        old: String,
        /// The new entry.
        new: String,
    },
    /// Removes an entry.
    Remove(String),
}

/// Why a profile cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProfileChangeError {
    /// The list has no such entry.
    #[error("`{list}` has no such entry")]
    NoSuchEntry {
        /// The name of the list.
        list: &'static str,
    },
    /// The list is full.
    #[error("`{list}` is full: it may have {max} entries")]
    Full {
        /// The name of the list.
        list: &'static str,
        /// Maximum number of entries.
        max: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_profile_changes_leave_the_profile_unchanged() {
        let mut profile = Profile::default();
        let add = |text: &str| ProfileChange::Add(text.to_owned());
        for list in ProfileList::ALL {
            profile.change(list, &add(list.as_str()), 50, false).unwrap();
            profile.change(list, &add(list.as_str()), 50, false).unwrap();
            assert_eq!(profile.list(list), &[list.as_str().to_owned()], "added once");
        }
        let facts = ProfileList::Facts;
        let replace = |old: &str| ProfileChange::Replace { old: old.into(), new: "lives in Graz".into() };
        profile.change(facts, &replace(" facts "), 50, false).unwrap();
        assert_eq!(profile.facts, ["lives in Graz"]);
        for wrong in [replace("facts"), ProfileChange::Remove("facts".into())] {
            assert_eq!(
                profile.change(facts, &wrong, 50, false),
                Err(ProfileChangeError::NoSuchEntry { list: "facts" })
            );
        }
        profile.change(facts, &ProfileChange::Remove("lives in Graz".into()), 50, false).unwrap();
        assert!(profile.facts.is_empty());
        for nth in 0..50 {
            profile.change(facts, &add(&nth.to_string()), 50, false).unwrap();
        }
        assert_eq!(
            profile.change(facts, &add("more"), 50, false),
            Err(ProfileChangeError::Full { list: "facts", max: 50 })
        );
        assert_eq!(profile.facts.len(), 50);
        assert_eq!(profile.change(facts, &add("more"), 51, false), Ok(()), "the limit is the caller's");
    }

    #[test]
    fn marks_stay_as_long_as_their_entries() {
        let mut profile = Profile::default();
        let add = |text: &str| ProfileChange::Add(text.to_owned());
        let replace = |old: &str, new: &str| ProfileChange::Replace { old: old.into(), new: new.into() };
        let (facts, aims) = (ProfileList::Facts, ProfileList::Aims);
        profile.change(facts, &add("own"), 50, false).unwrap();
        profile.change(facts, &add("own"), 50, true).unwrap();
        assert!(profile.untrusted.is_empty(), "nothing was written");
        profile.change(aims, &add("theirs"), 50, true).unwrap();
        profile.change(facts, &replace("own", "also theirs"), 50, true).unwrap();
        assert_eq!(profile.untrusted, ["also theirs", "theirs"]);
        profile.change(facts, &ProfileChange::Remove("also theirs".into()), 50, true).unwrap();
        profile.change(aims, &replace("theirs", "own"), 50, false).unwrap();
        assert!(profile.untrusted.is_empty());
    }
}
