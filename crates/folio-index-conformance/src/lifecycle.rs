//! States, rebuilds, generations, deletions and restarts.

use folio_index::{Gap, IndexState, ListedDocument, PassageIndex, Written};

use crate::sample::{document, id, org, passage, ready, search, upsert, words};
use crate::{Fixture, Outcome, check, same};

pub(crate) async fn suite(fixture: &dyn Fixture, nonce: &str) -> Outcome {
    rebuilds(fixture, nonce).await?;
    let index = fixture.open().await?;
    generations(&*index, nonce).await?;
    deletions(&*index, nonce).await?;
    listing(&*index, nonce).await
}

async fn rebuilds(fixture: &dyn Fixture, nonce: &str) -> Outcome {
    let org = org(nonce, "rebuilds");
    let new = || vec![document("a", 1, vec![passage(0, "alpha", &[1.0, 0.0])])];
    {
        let index = fixture.open().await?;
        index.delete_organization(&org).await?;
        same(index.state(&org).await?, IndexState::Missing, "the state without an index")?;
        let missing = Written::NotUsable(IndexState::Missing);
        same(index.upsert(&org, new()).await?, missing, "an upsert without an index")?;
        same(index.delete_documents(&org, &[id("a")]).await?, missing, "a deletion without an index")?;
        same(index.finish_rebuild(&org, 1).await?, missing, "the end of a rebuild that has not begun")?;
        let answer = index.search(&org, &search("alpha", &[1.0, 0.0])).await?;
        check(
            answer.hits.is_empty() && !answer.lexical.is_used && !answer.dense.is_used,
            "a missing index was searched",
        )?;
        same(answer.lexical.gaps, vec![Gap::State(IndexState::Missing)], "the gap of a missing index")?;
        index.begin_rebuild(&org, 1).await?;
        upsert(&*index, &org, new()).await?;
        let answer = index.search(&org, &search("alpha", &[1.0, 0.0])).await?;
        same(answer.hits.len(), 1, "passages during a rebuild")?;
        for part in [answer.lexical, answer.dense] {
            check(part.is_used && part.gaps == [Gap::State(IndexState::Rebuilding)], "a rebuild is not named")?;
        }
    }
    let index = fixture.open().await?;
    same(index.state(&org).await?, IndexState::Rebuilding, "the state after a restart during a rebuild")?;
    same(words(&*index, &org, "alpha").await?, vec![(id("a"), 0)], "passages after a restart")?;
    index.begin_rebuild(&org, 2).await?;
    check(words(&*index, &org, "alpha").await?.is_empty(), "a rebuild kept passages")?;
    upsert(&*index, &org, new()).await?;
    let other = Written::NotUsable(IndexState::Rebuilding);
    same(index.finish_rebuild(&org, 1).await?, other, "the end of a rebuild that another one has replaced")?;
    same(index.state(&org).await?, IndexState::Rebuilding, "the state after the end of a replaced rebuild")?;
    for what in ["the end of a rebuild", "the repeated end of a rebuild"] {
        same(index.finish_rebuild(&org, 2).await?, Written::Applied { stale: 0 }, what)?;
    }
    drop(index);
    let index = fixture.open().await?;
    same(index.state(&org).await?, IndexState::Ready, "the state after a restart")?;
    let answer = index.search(&org, &search("alpha", &[1.0, 0.0])).await?;
    check(answer.lexical.gaps.is_empty() && answer.dense.gaps.is_empty(), "a complete index has gaps")?;
    same(answer.hits.len(), 1, "passages after a restart")?;
    check(index.organizations().await?.contains(&org), "an organization is not listed")?;
    index.delete_organization(&org).await?;
    index.delete_organization(&org).await?;
    check(!index.organizations().await?.contains(&org), "a deleted organization is listed")?;
    same(index.state(&org).await?, IndexState::Missing, "the state of a deleted organization")
}

async fn generations(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let org = org(nonce, "generations");
    ready(index, &org).await?;
    let generation = |number, text: &str| document("a", number, vec![passage(0, text, &[1.0]), passage(1, text, &[])]);
    upsert(index, &org, vec![generation(2, "second"), document("b", 7, vec![passage(0, "other", &[])])]).await?;
    let stale = index.upsert(&org, vec![generation(1, "first")]).await?;
    same(stale, Written::Applied { stale: 1 }, "an upsert of an earlier generation")?;
    check(words(index, &org, "first").await?.is_empty(), "an earlier generation replaced a later one")?;
    // The same generation may have other passages, for example with vectors.
    upsert(index, &org, vec![generation(2, "repeated")]).await?;
    same(words(index, &org, "second").await?, vec![], "replaced passages")?;
    same(words(index, &org, "repeated").await?, vec![(id("a"), 0), (id("a"), 1)], "passages of a repeated generation")?;
    upsert(index, &org, vec![document("a", 3, vec![passage(5, "third", &[1.0])])]).await?;
    let answer = index.search(&org, &search("third", &[1.0])).await?;
    same(answer.hits.len(), 1, "passages of a later generation")?;
    let hit = answer.hits.first().map(|hit| (hit.generation, hit.number));
    same(hit, Some((3, 5)), "the generation of a passage")?;
    check(words(index, &org, "repeated").await?.is_empty(), "two generations of a document")?;
    upsert(index, &org, vec![document("a", 4, vec![])]).await?;
    check(words(index, &org, "third").await?.is_empty(), "a document without passages")?;
    same(words(index, &org, "other").await?, vec![(id("b"), 0)], "another document")?;
    let twice = index.upsert(&org, vec![document("b", 8, vec![]), document("b", 8, vec![])]).await;
    check(twice.is_err(), "an upsert with a document twice was accepted")
}

async fn deletions(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let org = org(nonce, "deletions");
    ready(index, &org).await?;
    let both = vec![passage(0, "common", &[1.0, 0.5]), passage(1, "common", &[0.5, 1.0])];
    upsert(index, &org, ["a", "b", "c"].map(|name| document(name, 1, both.clone())).to_vec()).await?;
    let deleted = index.delete_documents(&org, &[id("a"), id("unknown")]).await?;
    same(deleted, Written::Applied { stale: 0 }, "a deletion")?;
    let answer = index.search(&org, &search("common", &[1.0, 0.5])).await?;
    same(answer.hits.len(), 4, "passages after a deletion")?;
    check(answer.hits.iter().all(|hit| hit.document != id("a")), "a deleted document was found")?;
    same(index.statistics(&org).await?.passages, 4, "the number of passages after a deletion")?;
    // A deleted document may be indexed again.
    upsert(index, &org, vec![document("a", 1, both)]).await?;
    same(index.statistics(&org).await?.passages, 6, "the number of passages")
}

async fn listing(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let org = org(nonce, "listing");
    ready(index, &org).await?;
    for generation in 1..=3u32 {
        let passages: Vec<_> = (0..generation).map(|number| passage(number, "listed", &[])).collect();
        for name in ["a", "b", "c", "d"] {
            upsert(index, &org, vec![document(name, generation.into(), passages.clone())]).await?;
        }
    }
    index.delete_documents(&org, &[id("b")]).await?;
    let mut expected: Vec<_> = ["a", "c", "d"].map(id).to_vec();
    expected.sort();
    let expected: Vec<_> =
        expected.into_iter().map(|document| ListedDocument { document, generation: 3, passages: 3 }).collect();
    same(index.documents(&org, None, 10).await?, expected.clone(), "all documents")?;
    let first = index.documents(&org, None, 2).await?;
    same(first.clone(), expected.iter().take(2).cloned().collect(), "the first page of documents")?;
    let after = first.last().map(|listed| listed.document.clone());
    let rest = index.documents(&org, after.as_ref(), 2).await?;
    same(rest, expected.iter().skip(2).cloned().collect(), "the second page of documents")
}
