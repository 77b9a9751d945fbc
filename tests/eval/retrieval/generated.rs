//! The project's own set: manuals, contracts, letters, invoices and FAQs in three languages, with questions whose relevant passages are
//! known because the generator wrote them. The same number yields the same set in every version of the project.

use super::topics::{DocumentKind, Topic, Topics};
use super::{Question, QuestionKind, Set, SetDocument, SetSection, Target, Unit};
use crate::eval::content::Numbers;

/// Maximum number of a set.
pub const SETS_MAX: u32 = 100;
/// Distance between the seeds of two sets. The seeds of the sets for extraction are smaller.
const SEEDS_PER_SET: u64 = 1_000_000;
/// Codes of a document, each in a sentence that other documents have with other codes.
const CODES: usize = 6;
/// Codes of a document that are questions.
const CODE_QUESTIONS: usize = 2;
/// Number of different codes, and the smallest one: codes have four digits.
const CODES_MAX: u64 = 9_000;
const CODE_MIN: u64 = 1_000;
/// Difference between two consecutive codes, which belong to different documents.
const CODE_STEP: u64 = 7;

/// Returns a set. Sets have the same topics with other numbers, codes and assignments of codes. `number`: 1 to [`SETS_MAX`].
pub fn set(number: u32) -> Set {
    let mut numbers = Numbers(u64::from(number) * SEEDS_PER_SET);
    let languages = Topics::all();
    let topics: Vec<(&Topics, &Topic)> =
        languages.iter().flat_map(|topics| topics.documents.iter().map(move |topic| (topics, topic))).collect();
    let codes = Codes { first: numbers.below(CODES_MAX), documents: topics.len() as u64 };
    let (mut documents, mut questions) = (Vec::new(), Vec::new());
    for (at, (topics, topic)) in (0u64..).zip(&topics) {
        let kind = topics.kind(&topic.kind);
        let codes = codes.of(at);
        let first_meaning = numbers.below(kind.meanings.len() as u64) as usize;
        let generated = Generated::new(topics, topic, kind, &codes, first_meaning, &mut numbers);
        documents.push(generated.document);
        questions.extend(generated.questions);
    }
    Set { name: format!("generated {number}"), unit: Unit::Passage, documents, questions }
}

/// The codes of a set. No two are equal, and consecutive ones are in different documents.
struct Codes {
    first: u64,
    documents: u64,
}

impl Codes {
    /// Returns the codes of a document.
    fn of(&self, document: u64) -> Vec<String> {
        let code = |line: u64| {
            let number = CODE_MIN + (self.first + (line * self.documents + document) * CODE_STEP) % CODES_MAX;
            format!("K-{number}")
        };
        (0..CODES as u64).map(code).collect()
    }
}

/// A document with its questions.
struct Generated {
    document: SetDocument,
    questions: Vec<Question>,
}

impl Generated {
    fn new(
        topics: &Topics,
        topic: &Topic,
        kind: &DocumentKind,
        codes: &[String],
        first_meaning: usize,
        numbers: &mut Numbers,
    ) -> Self {
        let id = format!("{}-{}", topics.code, topic.name);
        let section = |title: &str, text: String| SetSection {
            titles: vec![topic.title.clone(), title.to_owned()],
            paragraphs: vec![text],
        };
        let target = |sentence: &str| vec![Target { document: id.clone(), sentence: sentence.to_owned(), grade: 1 }];
        let mut questions = Vec::new();
        let mut sections =
            vec![SetSection { titles: vec![topic.title.clone()], paragraphs: vec![kind.general.clone()] }];
        for fact in &topic.facts {
            let sentence = fact.sentence.replace("{n}", &(11 + numbers.below(49)).to_string());
            for (text, kind) in [(&fact.words, QuestionKind::Words), (&fact.paraphrase, QuestionKind::Paraphrase)] {
                questions.push(Question { text: text.clone(), kind, targets: target(&sentence) });
            }
            sections.push(section(&fact.title, sentence));
        }
        let line = |(at, code): (usize, &String)| {
            let meaning = &kind.meanings[(first_meaning + at) % kind.meanings.len()];
            kind.code_line.replace("{code}", code).replace("{meaning}", meaning)
        };
        let lines: Vec<String> = codes.iter().enumerate().map(line).collect();
        for (code, line) in codes.iter().zip(&lines).take(CODE_QUESTIONS) {
            questions.push(Question { text: code.clone(), kind: QuestionKind::Code, targets: target(line) });
        }
        sections.push(section(&kind.code_title, lines.join(" ")));
        sections.push(SetSection { titles: vec![topic.title.clone()], paragraphs: vec![kind.closing.clone()] });
        let language = ["en", "de", "fr"].into_iter().find(|code| *code == topics.code);
        Self { document: SetDocument { id, language, sections }, questions }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::eval::retrieval::searches::chunks;

    #[test]
    fn a_set_has_enough_documents_and_questions_of_each_kind() {
        let set = set(1);
        assert!(set.documents.len() >= 40, "{}", set.documents.len());
        assert!(set.questions.len() >= 120, "{}", set.questions.len());
        let mut kinds = BTreeMap::new();
        set.questions.iter().for_each(|question| *kinds.entry(question.kind).or_insert(0) += 1);
        assert!(kinds.len() == 3 && kinds.values().all(|count| *count >= 40), "{kinds:?}");
        let languages: BTreeSet<_> = set.documents.iter().map(|document| document.language).collect();
        assert_eq!(languages, [Some("de"), Some("en"), Some("fr")].into_iter().collect());
        let ids: BTreeSet<_> = set.documents.iter().map(|document| &document.id).collect();
        assert_eq!(ids.len(), set.documents.len());
    }

    #[test]
    fn each_question_has_exactly_one_relevant_passage() {
        let set = set(2);
        let chunks = chunks(&set.documents).expect("the documents have chunks");
        for Question { text, targets, .. } in &set.questions {
            let is_met = |passage: &&super::super::FoundPassage| targets.iter().all(|target| target.is_met_by(passage));
            let met = chunks.iter().map(|chunk| &chunk.found).filter(is_met).count();
            assert_eq!(met, 1, "{text}");
        }
    }

    #[test]
    fn no_two_codes_of_a_set_are_equal() {
        for number in [1, 2, SETS_MAX] {
            let set = set(number);
            let text = |question: &Question| question.text.clone();
            let texts: BTreeSet<String> = set.questions.iter().map(text).collect();
            assert_eq!(texts.len(), set.questions.len());
            let sections = set.documents.iter().flat_map(|document| &document.sections);
            let words = sections.flat_map(|section| &section.paragraphs).flat_map(|text| text.split_whitespace());
            let codes: Vec<&str> = words.filter(|word| word.as_bytes().get(1) == Some(&b'-')).collect();
            let different: BTreeSet<&str> = codes.iter().copied().collect();
            assert_eq!((codes.len(), different.len()), (CODES * set.documents.len(), CODES * set.documents.len()));
        }
    }

    #[test]
    fn a_number_yields_the_same_set() {
        assert_eq!(set(3), set(3));
        assert_ne!(set(3).questions, set(4).questions);
    }
}
