//! Samples of the entries of a dictionary, and of the questions about its terms.

use folio_resources::{
    DictionaryEntry, DictionaryEntryChange, DictionaryEntryFilter, DictionaryEntryPatch, DictionaryQuestion,
    DictionaryQuestionChange, DictionaryQuestionFilter, MeaningGuess, NewDictionaryEntry, NewQuestion, Provenance,
    QuestionState, term_key,
};

use super::{Sample, Seed};

/// Returns the tag and the provenance of a dictionary entry.
fn meaning(seed: &Seed) -> (String, Provenance) {
    let provenance = match seed.content % 3 {
        0 => Provenance::Person,
        1 => Provenance::Agent,
        _ => Provenance::Inferred { confidence: 0.5 },
    };
    (format!("Region {}", seed.content), provenance)
}

impl Sample for DictionaryEntry {
    fn create(seed: &Seed) -> DictionaryEntryChange {
        let (tag, provenance) = meaning(seed);
        DictionaryEntryChange::Create(Box::new(NewDictionaryEntry {
            term: seed.name.clone(),
            expansion: seed.content.to_string(),
            disambiguation: Some("in sales".to_owned()),
            tags: vec![tag],
            sources: seed.all(),
            provenance,
        }))
    }

    fn update(seed: &Seed) -> DictionaryEntryChange {
        let (tag, provenance) = meaning(seed);
        DictionaryEntryChange::Update(Box::new(DictionaryEntryPatch {
            term: Some(seed.name.clone()),
            expansion: Some(seed.content.to_string()),
            disambiguation: Some(None),
            tags: Some(vec![tag]),
            sources: Some(seed.all()),
            provenance: Some(provenance),
        }))
    }

    fn filters(seed: &Seed) -> Vec<DictionaryEntryFilter> {
        let ((tag, provenance), all) = (meaning(seed), DictionaryEntryFilter::default());
        vec![
            all.clone(),
            DictionaryEntryFilter { term_search: Some(seed.name.clone()), ..all.clone() },
            DictionaryEntryFilter { term: Some(seed.name.to_uppercase()), ..all.clone() },
            DictionaryEntryFilter { all_tags: vec![tag.to_lowercase()], ..all.clone() },
            DictionaryEntryFilter { provenance: Some(provenance.name().to_owned()), ..all },
        ]
    }
}

impl Sample for DictionaryQuestion {
    fn create(seed: &Seed) -> DictionaryQuestionChange {
        let guess = MeaningGuess { expansion: seed.content.to_string(), confidence: 0.5 };
        DictionaryQuestionChange::Create(Box::new(NewQuestion {
            document: seed.document(),
            term: seed.name.clone(),
            occurrences: seed.content,
            contexts: vec![format!("{} in a text", seed.name)],
            guess: Some(guess),
        }))
    }

    fn update(seed: &Seed) -> DictionaryQuestionChange {
        match seed.name.as_str() {
            // One of the listed resources.
            "Alpha" => DictionaryQuestionChange::Answer,
            _ => DictionaryQuestionChange::Dismiss,
        }
    }

    fn filters(seed: &Seed) -> Vec<DictionaryQuestionFilter> {
        let all = DictionaryQuestionFilter { document: Some(seed.document()), ..DictionaryQuestionFilter::default() };
        vec![
            all.clone(),
            DictionaryQuestionFilter { any_key: vec![term_key("old delta"), "missing".to_owned()], ..all.clone() },
            DictionaryQuestionFilter { any_state: vec![QuestionState::Answered], ..all },
        ]
    }
}
