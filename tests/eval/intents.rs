//! Evaluation of the classification of the assistant: labelled questions, a confusion matrix, and the precision and recall of each
//! intent.
//!
//! Each question is a turn of the assistant in a thread of its own. The turn is cancelled when its classification is published,
//! so that only the classification is paid for. An organization without documents suffices.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Endpoint;
use super::folio::Folio;

/// The intents in the order of the matrix.
pub const INTENTS: [&str; 4] = ["qa", "summarization", "calculation", "unknown"];
/// Minimum number of labelled questions.
const QUESTIONS_MIN: usize = 60;
/// Name of the node that classifies.
const CLASSIFY: &str = "classify_intent";

/// A question with its expected intent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labelled {
    pub question: String,
    pub intent: String,
}

/// The number of questions by expected intent (row) and found intent (column).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Matrix {
    pub counts: [[u32; 4]; 4],
    /// Questions whose classification violated its type twice. They are counted as `unknown`.
    pub defaults: u32,
    /// Questions that were classified wrong, with the expected and the found intent.
    pub wrong: Vec<(String, String, String)>,
}

/// Reads the labelled questions.
///
/// # Errors
/// The file is unusable, has an unknown intent, or has fewer than 60 questions.
pub fn load(path: &Path) -> Result<Vec<Labelled>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let questions = lines.map(|(at, line)| {
        let found: Labelled = serde_json::from_str(line).with_context(|| format!("line {} is invalid", at + 1))?;
        ensure!(INTENTS.contains(&found.intent.as_str()), "line {} has the unknown intent {:?}", at + 1, found.intent);
        Ok(found)
    });
    let questions: Vec<Labelled> = questions.collect::<Result<_>>()?;
    ensure!(questions.len() >= QUESTIONS_MIN, "{} questions; at least {QUESTIONS_MIN} are required", questions.len());
    Ok(questions)
}

/// Classifies the questions with the model of an endpoint.
///
/// # Errors
/// The server does not start, or a question has no classification.
pub async fn run(endpoint: &Endpoint, questions: &[Labelled]) -> Result<Matrix> {
    let folio = Folio::start(endpoint, false, 0).await?;
    let mut matrix = Matrix::default();
    for labelled in questions {
        let (found, is_default) = classify(&folio, &labelled.question).await?;
        matrix.add(labelled, &found, is_default);
    }
    Ok(matrix)
}

/// Returns the intent of a question, and true if it is the default after two violations.
async fn classify(folio: &Folio, question: &str) -> Result<(String, bool)> {
    let request = v1::ChatRequest {
        profile: "assistant".to_owned(),
        text: question.to_owned(),
        ephemeral: true,
        ..v1::ChatRequest::default()
    };
    let client = folio.client();
    let mut stream = client.conversations.clone().chat(request).await?.into_inner();
    while let Some(response) = stream.message().await? {
        let Some(event) = response.event else { continue };
        match event.kind {
            Some(Kind::NodeEnded(ended)) => {
                let node = ended.node.filter(|node| node.name == CLASSIFY).context("another node ended first")?;
                let end = node.end.context("the classification has no answer")?;
                let answer: Value = serde_json::from_str(&end.answer_json)?;
                let intent = answer["intent_type"].as_str().context("the classification has no intent")?;
                let cancel = v1::CancelTurnRequest { turn_id: event.turn_id, ..v1::CancelTurnRequest::default() };
                client.conversations.clone().cancel_turn(cancel).await?;
                return Ok((intent.to_owned(), end.is_default));
            }
            Some(Kind::Failed(failed)) => bail!("{question:?}: {:?}", failed.error),
            _ => {}
        }
    }
    bail!("{question:?}: the turn ended without a classification")
}

impl Matrix {
    fn add(&mut self, labelled: &Labelled, found: &str, is_default: bool) {
        let position = |intent: &str| INTENTS.iter().position(|known| *known == intent).unwrap_or(INTENTS.len() - 1);
        self.counts[position(&labelled.intent)][position(found)] += 1;
        self.defaults += u32::from(is_default);
        if labelled.intent != found {
            self.wrong.push((labelled.question.clone(), labelled.intent.clone(), found.to_owned()));
        }
    }

    /// Returns the number of questions, and of those that were classified right.
    pub fn totals(&self) -> (u32, u32) {
        let all = self.counts.iter().flatten().sum();
        let right = (0..INTENTS.len()).map(|at| self.counts[at][at]).sum();
        (all, right)
    }

    /// Returns the number of questions with an intent, those classified so, and those of both.
    fn class(&self, at: usize) -> (u32, u32, u32) {
        let expected = self.counts[at].iter().sum();
        let found = self.counts.iter().map(|row| row[at]).sum();
        (expected, found, self.counts[at][at])
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (question, expected, found) in &self.wrong {
            writeln!(f, "{expected} classified as {found}: {question}")?;
        }
        let corner = "expected \\ found";
        write!(f, "\n{corner:<22}")?;
        for intent in INTENTS {
            write!(f, "{intent:>15}")?;
        }
        writeln!(f)?;
        for (intent, row) in INTENTS.iter().zip(&self.counts) {
            write!(f, "{intent:<22}")?;
            row.iter().try_for_each(|count| write!(f, "{count:>15}"))?;
            writeln!(f)?;
        }
        let [class, questions, precision, recall] = ["intent", "questions", "precision", "recall"];
        writeln!(f, "\n{class:<22}{questions:>15}{precision:>15}{recall:>15}")?;
        for (at, intent) in INTENTS.iter().enumerate() {
            let (expected, found, right) = self.class(at);
            let (precision, recall) = (share(right, found), share(right, expected));
            writeln!(f, "{intent:<22}{expected:>15}{precision:>15}{recall:>15}")?;
        }
        let (all, right) = self.totals();
        write!(
            f,
            "\n{right} of {all} right ({}%), {} without a valid classification",
            percent(right, all),
            self.defaults
        )
    }
}

/// Returns a part in percent. `–`: nothing to divide.
fn share(part: u32, all: u32) -> String {
    if all == 0 { "–".to_owned() } else { format!("{}%", percent(part, all)) }
}

fn percent(part: u32, all: u32) -> u32 {
    (part * 100).checked_div(all).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_questions_of_the_project_are_valid_and_have_every_intent() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples/eval/intents.jsonl");
        let questions = load(&path).unwrap();
        for intent in INTENTS {
            assert!(questions.iter().filter(|labelled| labelled.intent == intent).count() >= 5, "{intent}");
        }
    }

    #[test]
    fn a_matrix_counts_by_expected_and_found_intent() {
        let labelled = |intent: &str| Labelled { question: "q".to_owned(), intent: intent.to_owned() };
        let mut matrix = Matrix::default();
        matrix.add(&labelled("qa"), "qa", false);
        matrix.add(&labelled("qa"), "calculation", false);
        matrix.add(&labelled("unknown"), "unknown", true);
        assert_eq!((matrix.totals(), matrix.defaults), ((3, 2), 1));
        assert_eq!(matrix.counts[0], [1, 0, 1, 0]);
        let shown = matrix.to_string();
        assert!(shown.contains("qa classified as calculation: q") && shown.contains("2 of 3 right (66%)"), "{shown}");
        let classes: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        for class in [["qa", "2", "100%", "50%"], ["calculation", "0", "0%", "–"], ["unknown", "1", "100%", "100%"]] {
            assert!(classes.iter().any(|line| line == &class), "{class:?}: {shown}");
        }
    }
}
