//! Completion of commands and mentions by Tab, and messages of several lines.

use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::command::COMMANDS;
use crate::terminal::printable;

/// The mentions that can be completed. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Mentions(Arc<Mutex<Vec<String>>>);

impl Mentions {
    pub(super) fn set(&self, mentions: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = mentions;
    }

    fn get(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The part of the line editor that knows the chat.
pub(super) struct Completions(pub(super) Mentions);

impl Completer for Completions {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, candidates) = candidates(line.get(..pos).unwrap_or_default(), &self.0.get());
        let pair = |candidate: String| Pair { display: candidate.trim_end().to_owned(), replacement: candidate };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

impl Validator for Completions {
    /// A backslash at the end continues the message in the next line.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Hinter for Completions {
    type Hint = String;
}

impl Highlighter for Completions {}

impl Helper for Completions {}

/// Returns the start of the completed word and its completions: a command at the start of the line, or a mention.
fn candidates(line: &str, mentions: &[String]) -> (usize, Vec<String>) {
    if line.starts_with('/') && !line.contains(char::is_whitespace) {
        let commands = COMMANDS.iter().filter(|(name, ..)| name.starts_with(line));
        let completed = commands.map(|(name, arguments, _)| match arguments.is_empty() {
            true => (*name).to_owned(),
            false => format!("{name} "),
        });
        return (0, completed.collect());
    }
    let starts_word = |at: usize| {
        let before = line.get(..at).unwrap_or_default().chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || c == '(')
    };
    let Some((start, _)) = line.rmatch_indices('@').find(|(at, _)| starts_word(*at)) else {
        return (line.len(), Vec::new());
    };
    let typed = line.get(start..).unwrap_or_default().to_lowercase();
    let matching = mentions.iter().filter(|mention| mention.to_lowercase().starts_with(&typed));
    // A name is untrusted; a name with control characters would steer the terminal.
    (start, matching.filter(|mention| printable(mention) == **mention).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_completed_at_the_start_of_the_line() {
        assert_eq!(candidates("/thr", &[]), (0, vec!["/threads".to_owned()]));
        assert_eq!(candidates("/res", &[]), (0, vec!["/resume ".to_owned()]));
        assert_eq!(candidates("/th", &[]).1, ["/threads", "/thinking "]);
        assert_eq!(candidates("/model x", &[]).1, Vec::<String>::new());
    }

    #[test]
    fn mentions_are_completed_at_the_start_of_words() {
        let mentions = ["@schema:Invoice", "@schema:\"In stock\"", "@tag:urgent"].map(str::to_owned);
        assert_eq!(candidates("use @schema:in", &mentions), (4, vec!["@schema:Invoice".to_owned()]));
        assert_eq!(candidates("@schema:\"in s", &mentions).1, ["@schema:\"In stock\""]);
        assert_eq!(candidates("@", &mentions).1.len(), 3);
        assert!(candidates("me@tag", &mentions).1.is_empty());
        assert!(candidates("no mention", &mentions).1.is_empty());
        let hostile = ["@tag:a\u{1b}[2J".to_owned()];
        assert!(candidates("@tag", &hostile).1.is_empty());
    }
}
