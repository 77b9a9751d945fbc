//! Stored and indexed passages: each live document has one generation of passages, which is complete and indexed. No other
//! passages are stored or indexed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use folio_index::ListedDocument;
use folio_storage::value::{PassageGeneration, PassageHead};
use folio_types::OrgId;

use super::leftovers::ObservedRow;
use super::tables::read;

/// The stored passages of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ObservedPassages {
    /// The live generation.
    head: Option<PassageHead>,
    /// The generations that have a row.
    generations: BTreeSet<u64>,
    /// The numbers of the passages of each generation.
    numbers: BTreeMap<u64, BTreeSet<u32>>,
}

/// Returns the stored passages of an organization by document.
pub(super) fn observed(rows: &[ObservedRow], org: &OrgId) -> Result<BTreeMap<String, ObservedPassages>> {
    let mut found: BTreeMap<String, ObservedPassages> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.org == org.as_str()) {
        let context = || format!("the row {} of {}", row.key, row.group);
        match row.group.split('/').collect::<Vec<_>>().as_slice() {
            ["passage_head", _] => {
                let head: PassageHead = read(&row.value).with_context(context)?;
                found.entry(row.key.clone()).or_default().head = Some(head);
            }
            ["passage_generation", document] => {
                let stored: PassageGeneration = read(&row.value).with_context(context)?;
                found.entry((*document).to_owned()).or_default().generations.insert(stored.generation);
            }
            ["passage", document, generation, _] => {
                let generation = u64::from_str_radix(generation, 16).with_context(context)?;
                let number = row.key.parse::<u32>().with_context(context)?;
                let passages = found.entry((*document).to_owned()).or_default();
                passages.numbers.entry(generation).or_default().insert(number);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the violations. `live`: the documents that are not deleted, all of which were ingested. `indexed`: the documents in the
/// index. `model`: the embedding model, of which each passage must have a vector.
pub(super) fn check(
    live: &[String],
    stored: &BTreeMap<String, ObservedPassages>,
    indexed: &[ListedDocument],
    model: &str,
) -> Vec<String> {
    let mut index: BTreeMap<&str, &ListedDocument> = indexed.iter().map(|one| (one.document.as_str(), one)).collect();
    let (nothing, mut found) = (ObservedPassages::default(), Vec::new());
    for document in live {
        let passages = stored.get(document).unwrap_or(&nothing);
        found.extend(check_document(document, passages, index.remove(document.as_str()), model));
    }
    found.extend(index.keys().map(|document| format!("the index contains {document}, which is not live")));
    let others = stored.keys().filter(|document| !live.contains(document));
    found.extend(others.map(|document| format!("passages of {document} are stored, which is not live")));
    found
}

fn check_document(
    document: &str,
    stored: &ObservedPassages,
    indexed: Option<&ListedDocument>,
    model: &str,
) -> Vec<String> {
    let Some(head) = &stored.head else { return vec![format!("{document} has no live generation")] };
    let (generation, count) = (head.generation, head.passages);
    let mut found = Vec::new();
    if stored.generations != BTreeSet::from([generation]) {
        found.push(format!("{document} has the generations {:?}; the live one is {generation}", stored.generations));
    }
    let complete = BTreeMap::from([(generation, (0..count).collect::<BTreeSet<u32>>())]);
    if count == 0 || stored.numbers != complete {
        let numbers = &stored.numbers;
        found.push(format!("{document} has the passages {numbers:?}; its live generation {generation} has {count}"));
    }
    // The name of a space consists of the provider, the model and the dimensions.
    if head.space.as_deref().is_none_or(|space| space.split('/').nth(1) != Some(model)) {
        found.push(format!("passages of {document} have no vectors of {model}, but of {:?}", head.space));
    }
    if indexed.is_none_or(|indexed| (indexed.generation, indexed.passages) != (generation, count)) {
        let expected = format!("the generation {generation} with {count} passages");
        found.push(format!("the index contains {indexed:?} of {document}; expected {expected}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use folio_types::{DocumentId, Timestamp};
    use serde::Serialize;

    use super::*;

    fn id(name: &str) -> DocumentId {
        DocumentId::derive(&[name])
    }

    fn row(group: String, key: String, value: &impl Serialize) -> ObservedRow {
        let value = [vec![1], serde_json::to_vec(value).unwrap()].concat();
        ObservedRow { org: OrgId::derive(&["o"]).to_string(), group, key, value }
    }

    /// Returns the rows of a generation. `is_live`: with its head.
    fn rows(name: &str, generation: u64, passages: u32, is_live: bool) -> Vec<ObservedRow> {
        let document = id(name);
        let at = Timestamp::UNIX_EPOCH;
        let head = PassageHead {
            document: document.clone(),
            generation,
            passages,
            space: Some("provider/model/0".to_owned()),
            text_generation: at,
            created_at: at,
        };
        let stored = PassageGeneration { generation, passages };
        let group = format!("passage_generation/{document}");
        let mut rows = vec![row(group, format!("{generation:016x}"), &stored)];
        let group = format!("passage/{document}/{generation:016x}/0000");
        rows.extend((0..passages).map(|number| row(group.clone(), format!("{number:08}"), &"not read")));
        rows.extend(is_live.then(|| row("passage_head/00".to_owned(), document.to_string(), &head)));
        rows
    }

    fn indexed(name: &str, generation: u64, passages: u32) -> ListedDocument {
        ListedDocument { document: id(name), generation, passages }
    }

    /// Returns the violations, if the document `a` is live.
    fn found(rows: &[ObservedRow], indexed: &[ListedDocument], model: &str) -> Vec<String> {
        let stored = observed(rows, &OrgId::derive(&["o"])).unwrap();
        check(&[id("a").to_string()], &stored, indexed, model)
    }

    #[test]
    fn one_complete_and_indexed_generation_is_no_violation() {
        assert_eq!(found(&rows("a", 7, 2, true), &[indexed("a", 7, 2)], "model"), [""; 0]);
        let wrong = found(&rows("a", 7, 2, true), &[indexed("a", 7, 2)], "other");
        assert!(matches!(&wrong[..], [only] if only.contains("have no vectors of other")), "{wrong:?}");
    }

    #[test]
    fn other_generations_and_orphans_are_found() {
        let live = rows("a", 7, 2, true);
        let index = [indexed("a", 7, 2)];
        let one = |rows: &[ObservedRow], indexed: &[ListedDocument], reason: &str| {
            let found = found(rows, indexed, "model");
            assert!(found.iter().any(|text| text.contains(reason)), "{reason}: {found:?}");
        };
        one(&rows("a", 7, 2, false), &index, "has no live generation");
        one(&[live.clone(), rows("a", 5, 1, false)].concat(), &index, "has the generations {5, 7}");
        let orphan: Vec<_> = rows("a", 5, 1, false).into_iter().skip(1).collect();
        one(&[live.clone(), orphan].concat(), &index, "has the passages");
        one(&[live.clone(), rows("b", 6, 1, false)].concat(), &index, "which is not live");
        let incomplete: Vec<_> = live.iter().filter(|row| row.key != "00000001").cloned().collect();
        one(&incomplete, &index, "has the passages");
        one(&live, &[], "the index contains None");
        one(&live, &[indexed("a", 6, 2)], "expected the generation 7 with 2 passages");
        one(&live, &[index[0].clone(), indexed("b", 6, 1)], "which is not live");
    }

    #[test]
    fn rows_of_other_organizations_are_not_read() {
        assert!(observed(&rows("a", 7, 2, true), &OrgId::derive(&["other"])).unwrap().is_empty());
    }
}
