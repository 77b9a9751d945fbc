//! Searches during writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_index::{PassageIndex, Written};
use folio_types::OrgId;
use futures::future::{try_join, try_join_all};

use crate::sample::{document, id, org, passage, ready, search};
use crate::{Outcome, check, same};

const DOCUMENTS: usize = 4;
const GENERATIONS: u64 = 8;
const PASSAGES: u32 = 3;

pub(crate) async fn suite(index: Arc<dyn PassageIndex>, nonce: &str) -> Outcome {
    let org = org(nonce, "concurrency");
    ready(&*index, &org).await?;
    let writers = try_join_all((0..DOCUMENTS).map(|number| write(&*index, &org, number)));
    let readers = try_join_all((0..4).map(|_| read(&*index, &org)));
    try_join(writers, readers).await?;
    let listed = index.documents(&org, None, 100).await?;
    let is_last = listed.iter().all(|listed| listed.generation == GENERATIONS && listed.passages == PASSAGES);
    check(is_last && listed.len() == DOCUMENTS, format_args!("documents after concurrent writes: {listed:?}"))?;
    let expected = u64::from(PASSAGES) * DOCUMENTS as u64;
    same(index.statistics(&org).await?.passages, expected, "passages after concurrent writes")
}

/// Writes the generations of a document, each twice and in a wrong order.
async fn write(index: &dyn PassageIndex, org: &OrgId, number: usize) -> Outcome {
    let name = format!("document {number}");
    for generation in 1..=GENERATIONS {
        for generation in [generation, generation.saturating_sub(1), generation] {
            let passages = (0..PASSAGES).map(|number| passage(number, "common", &[1.0, 0.5])).collect();
            let written = index.upsert(org, vec![document(&name, generation, passages)]).await?;
            check(matches!(written, Written::Applied { .. }), format_args!("an upsert: {written:?}"))?;
        }
    }
    let answer = index.search(org, &search("common", &[])).await?;
    let own = answer.hits.iter().filter(|hit| hit.document == id(&name));
    check(own.clone().all(|hit| hit.generation == GENERATIONS), "a write was not visible after its end")
}

/// Searches, and checks that each answer contains one generation of each document.
async fn read(index: &dyn PassageIndex, org: &OrgId) -> Outcome {
    for _ in 0..30 {
        let answer = index.search(org, &search("common", &[1.0, 0.5])).await?;
        let mut generations = BTreeMap::new();
        for hit in &answer.hits {
            let generation = *generations.entry(hit.document.clone()).or_insert(hit.generation);
            check(generation == hit.generation, "an answer contains two generations of a document")?;
        }
        let complete = generations.len().saturating_mul(PASSAGES as usize);
        same(answer.hits.len(), complete, "passages of an answer during writes")?;
    }
    Ok(())
}
