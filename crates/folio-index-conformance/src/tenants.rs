//! Two organizations with the same documents.

use folio_index::{IndexState, PassageIndex, Written};

use crate::sample::{document, found, id, org, passage, ready, search, upsert};
use crate::{Outcome, check, same};

pub(crate) async fn suite(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let (own, other) = (org(nonce, "own"), org(nonce, "other"));
    index.delete_organization(&other).await?;
    ready(index, &own).await?;
    upsert(index, &own, vec![document("a", 1, vec![passage(0, "secret plan", &[1.0, 0.0])])]).await?;
    upsert(index, &own, vec![document("b", 1, vec![passage(0, "another plan", &[0.0, 1.0])])]).await?;
    let both = search("secret plan", &[1.0, 0.0]);
    let before = index.search(&own, &both).await?;
    same(found(&before), vec![(id("a"), 0), (id("b"), 0)], "passages of an organization")?;

    check(index.search(&other, &both).await?.hits.is_empty(), "an organization without an index found passages")?;
    ready(index, &other).await?;
    check(index.search(&other, &both).await?.hits.is_empty(), "an organization found the passages of another one")?;
    same(index.documents(&other, None, 10).await?, vec![], "the documents of another organization")?;
    same(index.statistics(&other).await?.passages, 0, "the passages of another organization")?;
    // Many passages with the same words would change rankings if statistics were shared.
    let many: Vec<_> = (0..200).map(|number| passage(number, "secret secret plan", &[0.5, 0.5])).collect();
    upsert(index, &other, vec![document("a", 9, many)]).await?;
    same(index.search(&own, &both).await?, before.clone(), "an answer after a write of another organization")?;
    let answer = index.search(&other, &both).await?;
    check(answer.hits.iter().all(|hit| hit.generation == 9), "an organization found the passages of another one")?;

    same(index.delete_documents(&other, &[id("b")]).await?, Written::Applied { stale: 0 }, "a deletion")?;
    same(index.search(&own, &both).await?, before.clone(), "an answer after a deletion of another organization")?;
    index.delete_organization(&other).await?;
    same(index.state(&other).await?, IndexState::Missing, "the state of a deleted organization")?;
    same(index.search(&own, &both).await?, before, "an answer after the deletion of another organization")
}
