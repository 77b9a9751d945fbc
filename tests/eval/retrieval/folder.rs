//! Public sets in the format of BEIR: `corpus.jsonl`, `queries.jsonl`, and `qrels.tsv` or `qrels/test.tsv`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use super::{Question, QuestionKind, Set, SetDocument, SetSection, Target, Unit};

/// Maximum number of documents of a corpus.
const DOCUMENTS_MAX: usize = 200_000;
/// Maximum number of questions, of which only those with a relevant document are used.
const QUESTIONS_MAX: usize = 200_000;
/// Maximum number of relevant pairs.
const PAIRS_MAX: usize = 1_000_000;
/// Maximum size of a file in bytes.
const FILE_BYTES: u64 = 1 << 30;
/// Maximum size of a line in bytes.
const LINE_BYTES: usize = 1 << 20;
/// Maximum length of the text of a question in characters, which the index accepts.
const QUESTION_CHARS: usize = 4_000;

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

/// Reads a set from a folder. Questions without a relevant document are left out.
///
/// # Errors
/// A file is missing or malformed, exceeds a bound, or names an unknown document.
pub fn load(folder: &Path) -> Result<Set> {
    let corpus = entries(&folder.join("corpus.jsonl"), DOCUMENTS_MAX)?;
    let texts = entries(&folder.join("queries.jsonl"), QUESTIONS_MAX)?;
    let nested = folder.join("qrels").join("test.tsv");
    let pairs = if nested.is_file() { nested } else { folder.join("qrels.tsv") };
    let ids: BTreeSet<&str> = corpus.iter().map(|entry| entry.id.as_str()).collect();
    ensure!(ids.len() == corpus.len(), "{} contains an id twice", folder.join("corpus.jsonl").display());
    let mut targets = relevant(&pairs, &ids)?;
    let question = |Entry { id, text, .. }: Entry| {
        let text = text.trim().chars().take(QUESTION_CHARS).collect::<String>();
        let targets = targets.remove(&id).filter(|_| !text.is_empty())?;
        Some(Question { text, kind: QuestionKind::Public, targets })
    };
    let questions = texts.into_iter().filter_map(question).collect();
    let document = |Entry { id, title, text }: Entry| SetDocument {
        id,
        language: None,
        sections: vec![SetSection {
            titles: if title.is_empty() { Vec::new() } else { vec![title] },
            paragraphs: vec![text],
        }],
    };
    let documents = corpus.into_iter().map(document).collect();
    Ok(Set { name: folder.display().to_string(), unit: Unit::Document, documents, questions })
}

/// Reads the lines of a file, which have numbers from 1. Blank lines are left out.
fn lines(path: &Path, most: usize) -> Result<Vec<(usize, String)>> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let bytes = file.metadata()?.len();
    ensure!(bytes <= FILE_BYTES, "{} has {bytes} bytes; at most {FILE_BYTES} are accepted", path.display());
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.with_context(|| format!("line {number} of {} is no text in UTF-8", path.display()))?;
        ensure!(line.len() <= LINE_BYTES, "line {number} of {} exceeds {LINE_BYTES} bytes", path.display());
        if !line.trim().is_empty() {
            ensure!(lines.len() < most, "{} has more than {most} lines", path.display());
            lines.push((number, line));
        }
    }
    Ok(lines)
}

fn entries(path: &Path, most: usize) -> Result<Vec<Entry>> {
    let entry = |(number, line): (usize, String)| {
        serde_json::from_str(&line).with_context(|| format!("line {number} of {} is malformed", path.display()))
    };
    lines(path, most)?.into_iter().map(entry).collect()
}

/// Returns the relevant documents by the ids of questions. The first line names the columns.
fn relevant(path: &Path, documents: &BTreeSet<&str>) -> Result<BTreeMap<String, Vec<Target>>> {
    let mut targets: BTreeMap<String, Vec<Target>> = BTreeMap::new();
    for (number, line) in lines(path, PAIRS_MAX)?.into_iter().skip(1) {
        let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [question, document, grade] = columns.as_slice() else {
            bail!("line {number} of {} has no three columns: question, document and grade", path.display());
        };
        let grade: i32 =
            grade.parse().with_context(|| format!("line {number} of {} has the grade {grade:?}", path.display()))?;
        let Ok(grade @ 1..) = u32::try_from(grade) else { continue };
        ensure!(
            documents.contains(document),
            "line {number} of {} names the unknown document {document:?}",
            path.display()
        );
        let targets = targets.entry((*question).to_owned()).or_default();
        if targets.iter().all(|target| target.document != *document) {
            targets.push(Target { document: (*document).to_owned(), sentence: String::new(), grade });
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(corpus: &str, queries: &str, qrels: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in [("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels.tsv", qrels)] {
            std::fs::write(folder.path().join(name), content).expect("the file is written");
        }
        folder
    }

    const CORPUS: &str = "{\"_id\": \"d1\", \"title\": \"T\", \"text\": \"one\", \"metadata\": {}}\n\n{\"_id\": \"d2\", \"text\": \"two\"}\n";
    const QUERIES: &str = "{\"_id\": \"q1\", \"text\": \" first \"}\n{\"_id\": \"q2\", \"text\": \"second\"}\n{\"_id\": \"q3\", \"text\": \"third\"}\n";

    #[test]
    fn a_set_has_the_questions_with_relevant_documents() {
        let qrels = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq1\td1\t1\nq2\td1\t0\nq3\td2\t-1\n";
        let set = load(folder(CORPUS, QUERIES, qrels).path()).unwrap();
        assert_eq!((set.unit, set.documents.len(), set.questions.len()), (Unit::Document, 2, 1));
        assert_eq!(set.questions[0].text, "first");
        let targets: Vec<(&str, u32)> =
            set.questions[0].targets.iter().map(|target| (target.document.as_str(), target.grade)).collect();
        assert_eq!(targets, [("d1", 2), ("d2", 1)]);
        assert_eq!(set.documents[0].sections[0].titles, ["T"]);
        assert!(set.documents[1].sections[0].titles.is_empty());
    }

    #[test]
    fn pairs_of_the_test_split_come_first() {
        let folder = folder(CORPUS, QUERIES, "h\nq1\td1\t1\n");
        std::fs::create_dir(folder.path().join("qrels")).unwrap();
        std::fs::write(folder.path().join("qrels/test.tsv"), "h\nq2\td2\t1\n").unwrap();
        let set = load(folder.path()).unwrap();
        assert_eq!(set.questions.iter().map(|question| question.text.as_str()).collect::<Vec<_>>(), ["second"]);
    }

    #[test]
    fn a_malformed_set_is_refused_with_its_line() {
        for (corpus, queries, qrels, problem) in [
            ("{", QUERIES, "h\n", "line 1 of"),
            (CORPUS, "{\"_id\": 1}", "h\n", "line 1 of"),
            (CORPUS, QUERIES, "h\nq1\td1\n", "line 2 of"),
            (CORPUS, QUERIES, "h\nq1\td1\tx\n", "line 2 of"),
            (CORPUS, QUERIES, "h\nq1\td9\t1\n", "the unknown document"),
            (
                "{\"_id\": \"a\", \"text\": \"\"}\n{\"_id\": \"a\", \"text\": \"\"}",
                QUERIES,
                "h\n",
                "contains an id twice",
            ),
        ] {
            let error = format!("{:#}", load(folder(corpus, queries, qrels).path()).unwrap_err());
            assert!(error.contains(problem), "{error}");
        }
        assert!(load(Path::new("/nonexistent")).is_err());
    }
}
