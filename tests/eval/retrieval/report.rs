//! The report of an evaluation of retrieval. Pure.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::QuestionKind;
use super::metrics::{Gains, Latency, Means};

/// The measurements of one mode of search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeResult {
    /// `lexical`, `dense` or `hybrid`.
    pub mode: String,
    #[serde(flatten)]
    pub means: Means,
    /// The means of the questions of each kind.
    pub kinds: BTreeMap<QuestionKind, Means>,
    /// Latency of searches. Without a server, it excludes the vectors of questions. None: the mode was not searched by itself.
    pub milliseconds: Option<Latency>,
}

impl ModeResult {
    /// Returns the means of rankings with the kinds of their questions.
    pub fn new(mode: &str, rankings: &[(QuestionKind, &Gains)], milliseconds: Option<Latency>) -> Self {
        let mut kinds: BTreeMap<QuestionKind, Vec<&Gains>> = BTreeMap::new();
        for (kind, gains) in rankings {
            kinds.entry(*kind).or_default().push(gains);
        }
        Self {
            mode: mode.to_owned(),
            means: Means::of(rankings.iter().map(|(_, gains)| *gains)),
            kinds: kinds.into_iter().map(|(kind, gains)| (kind, Means::of(gains))).collect(),
            milliseconds,
        }
    }
}

/// The report of a set. The modes are `lexical`, `dense` and `hybrid`, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub set: String,
    pub documents: usize,
    pub passages: usize,
    pub questions: usize,
    pub embedding_base_url: String,
    pub embedding_model: String,
    /// Latency of the vectors of questions. None: it is a part of the latency of searches.
    pub embedding_milliseconds: Option<Latency>,
    pub modes: Vec<ModeResult>,
}

impl Report {
    /// Returns the measurements of a mode. None: the report lacks the mode.
    pub fn mode(&self, name: &str) -> Option<&ModeResult> {
        self.modes.iter().find(|result| result.mode == name)
    }

    /// Returns true if the nDCG of hybrid searches is at least that of each other mode.
    pub fn is_hybrid_best(&self) -> bool {
        let ndcg = |result: &ModeResult| result.means.ndcg_at_10;
        let hybrid = self.mode("hybrid").map_or(0.0, ndcg);
        self.modes.iter().map(ndcg).all(|other| hybrid >= other)
    }
}

/// Formats two tables: one row for each mode, then one for each kind of questions and mode.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, documents, passages, questions, embedding_base_url, embedding_model, .. } = self;
        writeln!(f, "set {set}: {questions} questions about {documents} documents with {passages} passages")?;
        writeln!(f, "vectors of {embedding_model} at {embedding_base_url}\n")?;
        writeln!(f, "{HEAD}{:>10}{:>10}", "p50 ms", "p99 ms")?;
        for ModeResult { mode, means, milliseconds, .. } in &self.modes {
            writeln!(f, "{}{}", row("all", mode, means), cells(*milliseconds))?;
        }
        let label = "vector of a question";
        writeln!(f, "{label:<68}{}\n", cells(self.embedding_milliseconds))?;
        writeln!(f, "{HEAD}")?;
        let kinds = self.modes.first().map(|result| result.kinds.keys()).into_iter().flatten();
        for kind in kinds {
            for result in &self.modes {
                let means = result.kinds.get(kind).copied().unwrap_or_default();
                writeln!(f, "{}", row(kind.name(), &result.mode, &means))?;
            }
        }
        let outcome = if self.is_hybrid_best() { "met" } else { "missed" };
        write!(f, "\naim, nDCG@10 of hybrid searches at least that of the better part: {outcome}")
    }
}

const HEAD: &str = "questions    mode            number   recall@5  recall@10    nDCG@10";

fn cells(latency: Option<Latency>) -> String {
    let cell = |time: Option<f64>| time.map_or_else(|| "–".to_owned(), |time| format!("{time:.1}"));
    let (p50, p99) = (cell(latency.map(|latency| latency.p50)), cell(latency.map(|latency| latency.p99)));
    format!("{p50:>10}{p99:>10}")
}

fn row(questions: &str, mode: &str, means: &Means) -> String {
    let Means { questions: number, recall_at_5, recall_at_10, ndcg_at_10 } = means;
    format!("{questions:<13}{mode:<12}{number:>10}{recall_at_5:>11.3}{recall_at_10:>11.3}{ndcg_at_10:>11.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ndcg: [Option<usize>; 3]) -> Report {
        let mode = |(name, position): (&str, Option<usize>)| {
            let ranking: Vec<Option<usize>> = (0..10).map(|at| (Some(at) == position).then_some(0)).collect();
            let gains = Gains::of(&ranking, &[1]);
            ModeResult::new(name, &[(QuestionKind::Code, &gains), (QuestionKind::Words, &gains)], None)
        };
        Report {
            set: "generated 1".to_owned(),
            documents: 45,
            passages: 200,
            questions: 2,
            embedding_base_url: "http://127.0.0.1:1/v1".to_owned(),
            embedding_model: "e5".to_owned(),
            embedding_milliseconds: Some(Latency { p50: 1.0, p99: 2.0 }),
            modes: ["lexical", "dense", "hybrid"].into_iter().zip(ndcg).map(mode).collect(),
        }
    }

    #[test]
    fn the_tables_have_a_row_for_each_mode_and_kind() {
        let text = report([Some(0), Some(2), Some(0)]).to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["all", "dense", "2", "1.000", "1.000", "0.500", "–", "–"]), "{text}");
        assert!(rows.contains(&vec!["code", "hybrid", "1", "1.000", "1.000", "1.000"]), "{text}");
        assert!(rows.contains(&vec!["vector", "of", "a", "question", "1.0", "2.0"]), "{text}");
        assert!(text.ends_with("better part: met"), "{text}");
    }

    #[test]
    fn the_aim_is_missed_if_one_part_alone_is_better() {
        assert!(report([Some(1), Some(1), Some(1)]).is_hybrid_best());
        assert!(!report([None, Some(0), Some(1)]).is_hybrid_best());
        assert!(report([None, Some(0), Some(1)]).to_string().ends_with("missed"));
    }

    #[test]
    fn a_report_is_one_json_object() {
        let report = report([Some(0), Some(1), None]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["modes"][0]["ndcg_at_10"], 1.0);
        assert_eq!(json["modes"][0]["kinds"]["code"]["questions"], 1);
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    }
}
