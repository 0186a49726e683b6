//! Parses the Markdown files of a repository for tests of their links and commands.
//!
//! It understands headings, fenced blocks, code spans and links. The programs whose commands are checked are known to the
//! tests only.

use crate::sources::Source;

/// A link or command in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Line number, from 1.
    pub line: usize,
    /// The target of a link, or a command without prompt, comment and leading assignments.
    pub text: String,
}

/// Of a Markdown file.
impl Source {
    /// The targets of its links, `[text](target)`, outside code.
    pub fn links(&self) -> Vec<Reference> {
        let mut links = Vec::new();
        for (line, text, fenced) in self.lines() {
            if fenced {
                continue;
            }
            let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join("code");
            for (at, _) in prose.match_indices("](") {
                if let Some(end) = prose[at + 2..].find(')') {
                    links.push(Reference { line, text: prose[at + 2..at + 2 + end].to_owned() });
                }
            }
        }
        links
    }

    /// The anchors of its headings, as GitHub spells them: `## A kind of your own` is `a-kind-of-your-own`.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.lines().filter(|(_, text, fenced)| !fenced && text.starts_with('#'));
        headings.map(|(_, text, _)| anchor(text.trim_start_matches('#').trim())).collect()
    }

    /// The commands in fenced blocks and code spans that begin with `program`, for example `["cargo", "xtask"]`.
    pub fn commands(&self, program: &[&str]) -> Vec<Reference> {
        let mut commands = Vec::new();
        for (line, text, fenced) in self.lines() {
            let candidates: Vec<&str> =
                if fenced { vec![text] } else { text.split('`').skip(1).step_by(2).collect() };
            for candidate in candidates {
                let command = bare(candidate);
                if command.len() > program.len() && command.starts_with(program) {
                    commands.push(Reference { line, text: command.join(" ") });
                }
            }
        }
        commands
    }

    /// Each line with its number, and whether it is inside a fenced block.
    fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let mut fenced = false;
        self.text.lines().enumerate().map(move |(index, text)| {
            let is_fence = text.trim_start().starts_with("```");
            fenced ^= is_fence;
            (index + 1, text, fenced || is_fence)
        })
    }
}

/// A command's words without prompt, comment and leading assignments.
fn bare(text: &str) -> Vec<&str> {
    let words = text.trim().trim_start_matches("$ ").split_whitespace();
    words
        .take_while(|word| !word.starts_with('#'))
        .skip_while(|word| word.split_once('=').is_some_and(|(name, _)| name.chars().all(is_name)))
        .collect()
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_'
}

fn anchor(heading: &str) -> String {
    let letters = heading.to_lowercase();
    letters
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// What is wrong with a command; `None` if it is correct. `help` returns the help text of a subcommand, or `None` if
/// there is no such subcommand.
///
/// Checks the subcommand and the names of its options, not ids and file names.
pub fn mistake(command: &[&str], help: &mut dyn FnMut(&[&str]) -> Option<String>) -> Option<String> {
    let plain = |word: &&&str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    let words: Vec<&str> =
        command.iter().take_while(|word| plain(word) && !word.starts_with('-')).copied().collect();
    let mut found = None;
    for end in 1..=words.len() {
        match help(&words[..end]) {
            Some(text) => found = Some(text),
            None => break,
        }
    }
    let Some(found) = found else {
        // `houston --help`, or a placeholder such as `houston …`.
        return words.first().map(|word| format!("there is no command `{word}`"));
    };
    if found.contains("[ARGUMENTS]...") {
        // The command passes its options on to another program.
        return None;
    }
    let options = command.iter().take_while(|word| **word != "--").filter(|word| word.starts_with("--"));
    options
        .map(|option| option.split('=').next().unwrap_or(option))
        .map(|option| option.trim_end_matches(|letter: char| !letter.is_ascii_lowercase()))
        .find(|option| !found.contains(option))
        .map(|option| format!("`{}` has no option `{option}`", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Source {
        Source { path: "a.md".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn links_are_found_outside_code() {
        let links = document("see [a](b.md#c) and `[x](y)`\n```\n[no](no)\n```\n[d `e`](f)").links();
        let targets: Vec<&str> = links.iter().map(|link| link.text.as_str()).collect();
        assert_eq!(targets, ["b.md#c", "f"]);
    }

    #[test]
    fn anchors_are_spelled_as_github_does() {
        assert_eq!(document("## A kind of your own\n# Run, `x`").anchors(), ["a-kind-of-your-own", "run-x"]);
    }

    #[test]
    fn commands_lose_prompt_comment_and_assignments() {
        let text = "`houston list`\n```sh\n$ A=b houston key create --tenant x   # once\nls\n```";
        let commands = document(text).commands(&["houston"]);
        let commands: Vec<&str> = commands.iter().map(|command| command.text.as_str()).collect();
        assert_eq!(commands, ["houston list", "houston key create --tenant x"]);
    }

    #[test]
    fn unknown_commands_and_options_are_mistakes() {
        let mut help = |words: &[&str]| match words {
            ["key"] => Some("create".to_owned()),
            ["key", "create"] => Some("--tenant".to_owned()),
            _ => None,
        };
        assert_eq!(mistake(&["key", "create", "--tenant", "acme"], &mut help), None);
        assert!(mistake(&["key", "create", "--owner"], &mut help).unwrap().contains("--owner"));
        assert!(mistake(&["keys"], &mut help).unwrap().contains("keys"));
    }
}
