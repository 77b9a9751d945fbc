//! The bounds of a run of the ingestion network, which no person supervises. An entry takes effect on all documents of the
//! organization, and the hostile text of one document could instruct an agent to write it. A run may therefore record the meaning
//! of an abbreviation that its document uses and does not explain, as inferred, and only while no other document is a source of
//! the entry.

use folio_resources::{DictionaryEntry, Document, NewDictionaryEntry, Provenance, term_key};
use folio_types::DocumentId;
use folio_types::profile::Subject;

use super::abbreviations;
use crate::tool::{CallContext, ToolError};

/// Checks an entry that a turn writes. Only turns of the ingestion network have these bounds. `document`: the source. `existing`: the
/// entry of the term.
///
/// # Errors
/// `ForModel` if a run may not write the entry.
pub(super) async fn check(
    context: &CallContext,
    new: &NewDictionaryEntry,
    document: Option<&Document>,
    existing: Option<&DictionaryEntry>,
) -> Result<(), ToolError> {
    let (Some(Subject::Ingestion(_)), Some(document)) = (&context.subject, document) else { return Ok(()) };
    if let Some(text) = refusal(new, &document.id, existing) {
        return Err(ToolError::ForModel(text));
    }
    let (tokens, _) = abbreviations(context, document).await?;
    let key = term_key(&new.term);
    match tokens.iter().any(|token| term_key(&token.token) == key) {
        true => Ok(()),
        false => Err(ToolError::ForModel(
            "This run records only abbreviations that its document uses and does not explain: those of dictionary_suggest. Leave \
             this term out."
                .to_owned(),
        )),
    }
}

/// Returns the reason for which a run may not write an entry, whatever the text of its document is. None: it may.
fn refusal(new: &NewDictionaryEntry, document: &DocumentId, existing: Option<&DictionaryEntry>) -> Option<String> {
    if !matches!(new.provenance, Provenance::Inferred { .. }) {
        return Some("confidence is missing: this run infers meanings. Pass your confidence from 0 to 1.".to_owned());
    }
    let is_of_others = |entry: &&DictionaryEntry| entry.sources.as_slice() != std::slice::from_ref(document);
    existing.filter(is_of_others).map(|entry| {
        let (term, expansion) = (&entry.term, &entry.expansion);
        format!("The entry {term:?} ({expansion:?}) is not from this document alone, so this run cannot change it. Report a difference.")
    })
}

#[cfg(test)]
mod tests {
    use folio_resources::DictionaryEntryId;
    use folio_types::{OrgId, Timestamp, UserId};

    use super::*;

    #[test]
    fn a_run_infers_meanings_and_changes_no_entry_of_other_documents() {
        let [own, other] = ["own", "other"].map(|name| DocumentId::derive(&[name]));
        let new = |provenance| NewDictionaryEntry {
            term: "MY".to_owned(),
            expansion: "Malaysia".to_owned(),
            disambiguation: None,
            tags: Vec::new(),
            sources: Vec::new(),
            provenance,
        };
        let inferred = new(Provenance::Inferred { confidence: 0.9 });
        let entry = |sources: &[&DocumentId]| DictionaryEntry {
            id: DictionaryEntryId::derive(&["e"]),
            org: OrgId::derive(&["o"]),
            term: "MY".to_owned(),
            key: term_key("MY"),
            expansion: "Model Year".to_owned(),
            disambiguation: None,
            tags: Vec::new(),
            sources: sources.iter().map(|source| (*source).clone()).collect(),
            provenance: Provenance::Agent,
            created_by: UserId::derive(&["u"]),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            version: 1,
        };
        assert_eq!(refusal(&inferred, &own, None), None);
        assert_eq!(refusal(&inferred, &own, Some(&entry(&[&own]))), None);
        for provenance in [Provenance::Agent, Provenance::Person] {
            assert!(refusal(&new(provenance), &own, None).unwrap().contains("confidence"));
        }
        for sources in [&[&own, &other][..], &[&other], &[]] {
            let text = refusal(&inferred, &own, Some(&entry(sources))).unwrap();
            assert!(text.contains("cannot change it"), "{text}");
        }
    }
}
