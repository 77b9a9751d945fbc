//! Evaluation of retrieval on questions with known answers: `cargo xtask eval retrieval`.
//!
//! [`generated`] generates documents with questions, or [`folder`] reads a public set. [`served`] answers the questions by a `folio serve`,
//! [`searches`] by the index without a server. [`metrics`] compares the rankings by words, by meaning and by both with the relevant
//! passages, and [`report`] sums them up.

pub mod embeddings;
pub mod folder;
pub mod generated;
pub mod metrics;
pub mod report;
pub mod searches;
pub mod served;
mod topics;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use embeddings::{Embedder, EmbeddingEndpoint};
use metrics::{Gains, Latency};
use report::{ModeResult, Report};
use searches::{FoundPassage, Ranking, Rankings, Searches};
use served::Served;

/// A set of documents with questions.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    pub name: String,
    pub unit: Unit,
    pub documents: Vec<SetDocument>,
    pub questions: Vec<Question>,
}

/// The results that rankings consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Passages: a question is answered by a sentence.
    Passage,
    /// Documents: a document has the position of its best passage, as in public sets.
    Document,
}

/// A document in sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetDocument {
    pub id: String,
    /// Code of the language. None: unknown.
    pub language: Option<&'static str>,
    pub sections: Vec<SetSection>,
}

/// A section with its titles from the top of the document down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetSection {
    pub titles: Vec<String>,
    pub paragraphs: Vec<String>,
}

/// A question with its relevant results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    pub kind: QuestionKind,
    /// At least one.
    pub targets: Vec<Target>,
}

/// The relation of a question to its relevant passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The question has words of the passage.
    Words,
    /// The question shares no word with the passage, except words such as `the`.
    Paraphrase,
    /// The question is an exact code; the sentences of other passages differ from that of the passage only in the code.
    Code,
    /// The question of a public set.
    Public,
}

impl QuestionKind {
    fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Paraphrase => "paraphrase",
            Self::Code => "code",
            Self::Public => "public",
        }
    }
}

/// A relevant result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub document: String,
    /// The sentence that a relevant passage contains. Empty: every passage of the document is relevant.
    pub sentence: String,
    /// The relevance, at least 1.
    pub grade: u32,
}

impl Target {
    fn is_met_by(&self, passage: &FoundPassage) -> bool {
        self.document == passage.document && in_one_line(&passage.text).contains(&in_one_line(&self.sentence))
    }
}

/// Returns a text with single blanks.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The passages of a set, ready for searches.
enum Prepared {
    Index(Box<Searches>, Embedder),
    Server(Box<Served>),
}

impl Prepared {
    async fn rank(&self, question: &str) -> Result<Rankings> {
        match self {
            Self::Index(searches, embedder) => searches.rank(question, embedder).await,
            Self::Server(served) => served.rank(question).await,
        }
    }

    fn passages(&self) -> usize {
        match self {
            Self::Index(searches, _) => searches.passages(),
            Self::Server(served) => served.passages(),
        }
    }
}

/// Evaluates the questions of a set one after another. `endpoint`: the model of the vectors. `is_served`: true for searches through a
/// server, false for searches of the index without a server.
///
/// # Errors
/// The set has no question, the endpoint refuses a text, or the documents cannot be indexed.
pub async fn run(set: &Set, endpoint: &EmbeddingEndpoint, is_served: bool) -> Result<Report> {
    ensure!(!set.questions.is_empty(), "the set {:?} has no question with a relevant document", set.name);
    let prepared = if is_served {
        Prepared::Server(Box::new(Served::prepare(&set.documents, endpoint).await?))
    } else {
        let embedder = Embedder::new(endpoint.clone())?;
        Prepared::Index(Box::new(Searches::prepare(&set.documents, &embedder).await?), embedder)
    };
    let mut modes: [Vec<(Gains, Ranking)>; 3] = Default::default();
    let mut embedding = Vec::new();
    for question in &set.questions {
        let rankings = prepared.rank(&question.text).await?;
        embedding.extend(rankings.embedding);
        for (results, ranking) in modes.iter_mut().zip([rankings.lexical, rankings.dense, rankings.hybrid]) {
            results.push((gains(set.unit, question, &ranking.passages), ranking));
        }
    }
    let mode = |(name, results): (&str, &Vec<(Gains, Ranking)>)| {
        let graded = set.questions.iter().map(|question| question.kind).zip(results.iter().map(|(gains, _)| gains));
        let latency = Latency::of(results.iter().filter_map(|(_, ranking)| ranking.took).collect());
        ModeResult::new(name, &graded.collect::<Vec<_>>(), latency)
    };
    let names = ["lexical", "dense", "hybrid"];
    Ok(Report {
        set: set.name.clone(),
        documents: set.documents.len(),
        passages: prepared.passages(),
        questions: set.questions.len(),
        embedding_base_url: endpoint.base_url.clone(),
        embedding_model: endpoint.model.clone(),
        embedding_milliseconds: Latency::of(embedding),
        modes: names.into_iter().zip(&modes).map(mode).collect(),
    })
}

/// Compares a ranking with the relevant results of its question.
fn gains(unit: Unit, question: &Question, passages: &[FoundPassage]) -> Gains {
    let mut documents = BTreeSet::new();
    let target = |passage: &FoundPassage| question.targets.iter().position(|target| target.is_met_by(passage));
    let results =
        passages.iter().filter(|passage| unit == Unit::Passage || documents.insert(passage.document.as_str()));
    let ranking: Vec<Option<usize>> = results.map(target).collect();
    let grades: Vec<u32> = question.targets.iter().map(|target| target.grade).collect();
    Gains::of(&ranking, &grades)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(document: &str, text: &str) -> FoundPassage {
        FoundPassage { document: document.to_owned(), text: text.to_owned() }
    }

    fn question(targets: &[(&str, &str, u32)]) -> Question {
        let target = |(document, sentence, grade): &(&str, &str, u32)| Target {
            document: (*document).to_owned(),
            sentence: (*sentence).to_owned(),
            grade: *grade,
        };
        let targets = targets.iter().map(target).collect();
        Question { text: "q".to_owned(), kind: QuestionKind::Public, targets }
    }

    #[test]
    fn a_passage_is_relevant_if_its_document_and_sentence_match() {
        let question = question(&[("a", "The door is open.", 1)]);
        let ranking = [
            passage("b", "The door is open."),
            passage("a", "The window is open."),
            passage("a", "Note:\nThe  door\nis open. Close it."),
        ];
        assert_eq!(gains(Unit::Passage, &question, &ranking), Gains::of(&[None, None, Some(0)], &[1]));
    }

    #[test]
    fn a_document_has_the_position_of_its_best_passage() {
        let question = question(&[("a", "", 2), ("c", "", 1)]);
        let ranking = [passage("b", "x"), passage("b", "y"), passage("c", "x"), passage("a", "x"), passage("c", "y")];
        assert_eq!(gains(Unit::Document, &question, &ranking), Gains::of(&[None, Some(1), Some(0)], &[2, 1]));
    }
}
