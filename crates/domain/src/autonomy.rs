//! How far an agent goes without asking: five levels, from a question before each action to none at all.
//!
//! A level is what the prompt tells the model; what a model may not do whatever it was told is for guards to decide.

use serde::{Deserialize, Serialize};

/// How far an agent goes without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Autonomy {
    /// Asks before every action.
    None,
    /// Reads freely, asks before it changes anything.
    Low,
    /// Asks before what destroys or cannot be undone.
    #[default]
    Medium,
    /// Asks only before what is truly destructive.
    High,
    /// Never asks.
    Full,
}

impl Autonomy {
    /// All of them, the least first.
    pub const ALL: [Self; 5] = [Self::None, Self::Low, Self::Medium, Self::High, Self::Full];

    /// The name in the files of agent types and in the prompt.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Full => "full",
        }
    }

    /// What the model is told.
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Self::None => {
                "Take no action before your user has said yes to it: say what you would do, and ask."
            }
            Self::Low => "Reading and looking things up needs no permission. Ask before you change anything.",
            Self::Medium => {
                "Act on your own. Ask first when something would be destroyed or could not be undone."
            }
            Self::High => {
                "Act on your own, also where it takes several steps. Ask only before what destroys something that \
                 nobody can bring back."
            }
            Self::Full => "Act at once and on your own. Do not ask for permission.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_one_name_everywhere_and_a_rule_of_its_own() {
        let mut rules: Vec<&str> = Autonomy::ALL.map(Autonomy::rule).to_vec();
        for level in Autonomy::ALL {
            assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
        }
        rules.dedup();
        assert_eq!(rules.len(), 5);
        assert!(Autonomy::ALL.is_sorted());
        let error = serde_json::from_str::<Autonomy>("\"maximum\"").unwrap_err().to_string();
        assert!(error.contains("`none`, `low`, `medium`, `high`, `full`"), "{error}");
    }
}
