//! How much an agent does without asking: five levels, from a question before each action to no questions.
//!
//! The model reads the rule of its level in the prompt, and guards enforce it ([`crate::guard`]).

names! {
    /// How much an agent does without asking.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Autonomy {
        /// Asks before every action.
        None = "none",
        /// Reads without asking; asks before it changes anything.
        Low = "low",
        /// Asks before actions that destroy something or cannot be undone.
        #[default]
        Medium = "medium",
        /// Asks only before actions that destroy something for good.
        High = "high",
        /// Never asks.
        Full = "full",
    }
}

impl Autonomy {
    /// The rule in the prompt.
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
    fn each_level_has_one_name_and_its_own_rule() {
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
