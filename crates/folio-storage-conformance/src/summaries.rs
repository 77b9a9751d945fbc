//! Conformance suite of [`folio_storage::SummaryStore`] and [`folio_storage::ChunkSetStore`].

use std::time::Duration;

use folio_storage::{ChunkSet, StoredSummary, SummaryScope};
use folio_types::{Digest, DocumentId, IngestionId, Timestamp, UnknownFields};

use super::context::Context;
use super::{Outcome, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    summaries(context).await?;
    chunk_sets(context).await
}

/// Stores a summary that contains a text, and a record of chunks.
pub(crate) async fn fill(context: &Context, document: &DocumentId, text: &str) -> Outcome {
    let (stores, org, at) = (&context.stores, &context.org, context.now());
    let summary = StoredSummary {
        section: None,
        scope: SummaryScope::Document,
        text: text.to_owned(),
        sources: vec![0],
        text_generation: at,
        input: None,
        model: "small".to_owned(),
        created_at: at,
    };
    stores.summaries().put(org, document, &summary).await?;
    let run = IngestionId::derive(&["run", org.as_str()]);
    stores.chunk_sets().put(org, document, &chunk_set("a", &run, at, false)).await?;
    Ok(())
}

fn chunk_set(id: &str, run: &IngestionId, at: Timestamp, is_indexed: bool) -> ChunkSet {
    ChunkSet {
        id: id.to_owned(),
        run: run.clone(),
        text_generation: at,
        window: 200,
        overlap: 30,
        padding: 120,
        chunks: 3,
        tokens: 500,
        digest: Digest::of(id.as_bytes()),
        is_indexed,
        created_at: at,
        unknown: UnknownFields::default(),
    }
}

/// Summaries belong to one document of one organization, and those of earlier texts are removed.
async fn summaries(context: &Context) -> Outcome {
    let (store, org, other) = (context.stores.summaries(), &context.org, context.other());
    let [first, second] = ["first", "second"].map(|name| DocumentId::derive(&[name, org.as_str()]));
    let earlier = context.now();
    let current = earlier.saturating_add(Duration::from_secs(1)).unwrap_or(earlier);
    let summary = |section: Option<u32>, text: &str, text_generation: Timestamp| StoredSummary {
        section,
        scope: if section.is_none() { SummaryScope::Document } else { SummaryScope::Section },
        text: text.to_owned(),
        sources: section.into_iter().collect(),
        text_generation,
        input: None,
        model: "small".to_owned(),
        created_at: current,
    };
    let [of_section, of_later, of_document] =
        [summary(Some(2), "b", current), summary(Some(10), "c", earlier), summary(None, "a", current)];
    for stored in [&of_section, &of_later, &of_document, &summary(Some(2), "old", earlier), &of_section] {
        store.put(org, &first, stored).await?;
    }
    store.put(org, &second, &of_document).await?;
    let all = vec![of_document.clone(), of_section.clone(), of_later];
    same!(store.list(org, &first).await?, all, "the document, then its sections, without replaced ones");
    same!(store.list(&other, &first).await?.len(), 0, "summaries of another organization");
    store.remove_document(&other, &first).await?;
    for _ in 0..2 {
        store.remove_earlier(org, &first, current).await?;
        same!(store.list(org, &first).await?, vec![of_document.clone(), of_section.clone()], "summaries of the text");
    }
    for _ in 0..2 {
        store.remove_document(org, &first).await?;
        same!(store.list(org, &first).await?.len(), 0, "summaries of a removed document");
    }
    same!(store.list(org, &second).await?.len(), 1, "summaries of another document");
    store.remove_document(org, &second).await?;
    Ok(())
}

/// Records of chunks belong to one document of one organization, and those of other runs are removed.
async fn chunk_sets(context: &Context) -> Outcome {
    let (store, org, other) = (context.stores.chunk_sets(), &context.org, context.other());
    let document = DocumentId::derive(&["first", org.as_str()]);
    let [run, next] = ["run", "next"].map(|name| IngestionId::derive(&[name, org.as_str()]));
    let at = context.now();
    let set = |id: &str, run: &IngestionId, is_indexed| chunk_set(id, run, at, is_indexed);
    for stored in [set("b", &run, false), set("a", &run, false), set("c", &next, false), set("b", &run, true)] {
        store.put(org, &document, &stored).await?;
    }
    let states = |sets: Vec<ChunkSet>| sets.into_iter().map(|set| (set.id, set.is_indexed)).collect::<Vec<_>>();
    let pairs = |pairs: &[(&str, bool)]| pairs.iter().map(|(id, done)| ((*id).to_owned(), *done)).collect::<Vec<_>>();
    let found = states(store.list(org, &document).await?);
    same!(found, pairs(&[("a", false), ("b", true), ("c", false)]), "records by their ids");
    same!(store.list(&other, &document).await?.len(), 0, "records of another organization");
    for _ in 0..2 {
        store.remove_other_runs(org, &document, &next).await?;
        same!(states(store.list(org, &document).await?), pairs(&[("c", false)]), "records of one run");
    }
    store.remove_document(org, &document).await?;
    same!(store.list(org, &document).await?.len(), 0, "records of a removed document");
    Ok(())
}
