//! Samples of entries of dictionaries.

use folio_resources::{
    DictionaryEntry, DictionaryEntryChange, DictionaryEntryFilter, DictionaryEntryPatch, NewDictionaryEntry, Provenance,
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
