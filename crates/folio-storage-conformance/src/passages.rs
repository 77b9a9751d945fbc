//! Passages of documents, a part of the suite of rows.

use folio_storage::value::{PassageGeneration, PassageHead, ServingSpace, StoredPassage, StoredVector, decode};
use folio_storage::{LISTED_HEADS_MAX, PassageStore, PassagesWritten, READ_PASSAGES_MAX};
use folio_types::{DocumentId, JobId};

use super::context::Context;
use super::{Outcome, check, refused, same};

/// Number of passages of a document with several groups of rows.
const MANY: u32 = 1_002;
/// Number of documents whose heads are in several buckets.
const DOCUMENTS: usize = 40;

pub(crate) async fn check_passages(context: &Context) -> Outcome {
    // An organization without other passages.
    let context = &Context::new(context.stores.clone(), "passages", context.org.as_str());
    generations(context).await?;
    lists(context).await?;
    jobs(context).await?;
    serving(context).await
}

fn document(context: &Context, name: &str) -> DocumentId {
    DocumentId::derive(&[name, context.org.as_str()])
}

fn passage(number: u32, text: &str) -> StoredPassage {
    StoredPassage {
        section_id: "s".to_owned(),
        tokens: 2,
        vectors: vec![StoredVector { space: "a".to_owned(), values: vec![0.6, -0.8] }],
        ..StoredPassage::of_text(number, format!("{text} {number}"))
    }
}

/// Stores a passage that contains a text.
pub(crate) async fn fill(context: &Context, document: &DocumentId, text: &str) -> Outcome {
    let (text_generation, created_at) = (context.now(), context.now());
    let document = document.clone();
    let head = PassageHead { document, generation: 1, passages: 1, space: None, text_generation, created_at };
    same!(
        context.stores.passages().write(&context.org, &head, &[passage(0, text)]).await?,
        PassagesWritten::Live,
        "a first generation"
    );
    Ok(())
}

/// Writes a generation with this number of passages.
async fn write(
    context: &Context,
    document: &DocumentId,
    (generation, passages): (u64, u32),
) -> Result<PassagesWritten, super::Failure> {
    let head = PassageHead {
        document: document.clone(),
        generation,
        passages,
        space: Some("a".to_owned()),
        text_generation: context.now(),
        created_at: context.now(),
    };
    let text = format!("of {generation}");
    let passages: Vec<_> = (0..passages).map(|number| passage(number, &text)).collect();
    Ok(context.stores.passages().write(&context.org, &head, &passages).await?)
}

/// Returns the stored generations of a document, also those that are not live.
async fn stored(context: &Context, document: &DocumentId) -> Result<Vec<u64>, super::Failure> {
    let rows = context.stores.rows.list(&context.org, &format!("passage_generation/{document}")).await?;
    let mut found = Vec::new();
    for row in rows {
        found.push(decode::<PassageGeneration>(&row)?.generation);
    }
    Ok(found)
}

/// A later generation replaces an earlier one, and never the reverse.
async fn generations(context: &Context) -> Outcome {
    let (store, org): (PassageStore, _) = (context.stores.passages(), &context.org);
    let first = document(context, "first");
    same!(store.head(org, &first).await?, None, "the head of a document without passages");
    same!(store.newest_generation(org, &first).await?, None, "the generations of a document without passages");
    same!(write(context, &first, (5, MANY)).await?, PassagesWritten::Live, "a first generation");
    let numbers = [MANY - 1, 0, 600, MANY];
    let found = store.read(org, &first, 5, &numbers).await?;
    let texts: Vec<&str> = found.iter().map(|passage| passage.text.as_str()).collect();
    same!(texts, ["of 5 1001", "of 5 0", "of 5 600"], "passages in the requested order");
    same!(found.first().map(|passage| passage.vectors.len()), Some(1), "the vectors of a passage");
    same!(store.read(&context.other(), &first, 5, &numbers).await?.len(), 0, "passages of another organization");
    let many: Vec<u32> = (0..=u32::try_from(READ_PASSAGES_MAX).unwrap_or(u32::MAX)).collect();
    refused!(store.read(org, &first, 5, &many).await, TooLarge, "a read of too many passages");

    same!(write(context, &first, (7, 2)).await?, PassagesWritten::Live, "a later generation");
    same!(write(context, &first, (6, 3)).await?, PassagesWritten::Superseded, "an earlier generation");
    let head = store.head(org, &first).await?;
    same!(head.map(|head| (head.generation, head.passages)), Some((7, 2)), "the live generation");
    same!(stored(context, &first).await?, [7], "the stored generations");
    for generation in [5, 6] {
        same!(store.read(org, &first, generation, &[0, 1, 600]).await?.len(), 0, "passages of generation {generation}");
    }
    same!(store.read(org, &first, 7, &[0, 1, 2]).await?.len(), 2, "passages of the live generation");

    // A write that was interrupted before its head.
    let interrupted = PassageGeneration { generation: 8, passages: 1 };
    let (group, key) = (format!("passage_generation/{first}"), format!("{:016x}", 8));
    context.stores.rows.put(org, &group, &key, folio_storage::value::encode(&interrupted)?).await?;
    same!(store.newest_generation(org, &first).await?, Some(8), "the newest generation, which is not live");
    same!(store.newest_generation(&context.other(), &first).await?, None, "a generation of another organization");
    same!(write(context, &first, (9, 1)).await?, PassagesWritten::Live, "a generation after an interrupted one");
    same!(stored(context, &first).await?, [9], "the stored generations after an interrupted one");

    for _ in 0..2 {
        store.remove(org, &first).await?;
        same!(store.head(org, &first).await?, None, "the head of a document whose passages were removed");
        same!(stored(context, &first).await?.len(), 0, "the generations of a document whose passages were removed");
        same!(store.read(org, &first, 9, &[0]).await?.len(), 0, "removed passages");
    }
    Ok(())
}

/// Heads are listed once each, in a fixed order.
async fn lists(context: &Context) -> Outcome {
    let (store, org) = (context.stores.passages(), &context.org);
    let mut documents: Vec<DocumentId> = (0..DOCUMENTS).map(|number| document(context, &number.to_string())).collect();
    for document in &documents {
        write(context, document, (1, 1)).await?;
    }
    let (mut listed, mut after) = (Vec::new(), None::<DocumentId>);
    loop {
        let heads = store.heads(org, after.as_ref(), 7).await?;
        check!(heads.len() <= 7, "a page has {} heads", heads.len());
        let Some(last) = heads.last() else { break };
        after = Some(last.document.clone());
        listed.extend(heads.into_iter().map(|head| head.document));
    }
    same!(listed.len(), DOCUMENTS, "the number of listed heads");
    let mut sorted = listed.clone();
    sorted.sort();
    documents.sort();
    same!(sorted, documents, "the documents of the listed heads");
    let mut by_bucket = Vec::new();
    for bucket in store.buckets(org).await? {
        by_bucket.extend(store.heads_in(org, bucket).await?.into_iter().map(|head| head.document));
    }
    same!(by_bucket, listed, "the heads of all buckets");
    let missing = document(context, "missing");
    let requested = [documents.first(), Some(&missing), documents.last()].map(|document| document.cloned());
    let requested: Vec<DocumentId> = requested.into_iter().flatten().collect();
    let found: Vec<bool> = store.heads_of(org, &requested).await?.iter().map(Option::is_some).collect();
    same!(found, [true, false, true], "the heads of documents");
    same!(store.heads(&context.other(), None, 7).await?.len(), 0, "heads of another organization");
    for limit in [0, LISTED_HEADS_MAX + 1] {
        refused!(store.heads(org, None, limit).await, InvalidField, "a list of {limit} heads");
    }
    Ok(())
}

/// The newest job of a document is found until the passages of the document are removed.
async fn jobs(context: &Context) -> Outcome {
    let (store, org) = (context.stores.passages(), &context.org);
    let documents = [document(context, "a"), document(context, "b")];
    let [first, second] = &documents;
    same!(store.last_ingestion(org, first).await?, None, "the job of a document without one");
    for name in ["first", "second"] {
        let job = JobId::derive(&[name, org.as_str()]);
        store.set_last_ingestion(org, &job, &documents).await?;
        for (document, item) in documents.iter().zip(1_u32..) {
            let found = store.last_ingestion(org, document).await?.map(|found| (found.job, found.item));
            same!(found, Some((job.clone(), item)), "the {name} job of a document");
        }
    }
    write(context, first, (1, 1)).await?;
    store.remove_passages(org, first).await?;
    same!(store.head(org, first).await?, None, "the head of a document without text");
    same!(store.last_ingestion(org, first).await?.is_some(), true, "the job of a document without text");
    same!(write(context, first, (1, 1)).await?, PassagesWritten::Live, "a generation after a removal");
    store.remove(org, first).await?;
    same!(store.last_ingestion(org, first).await?, None, "the job of a removed document");
    same!(store.last_ingestion(org, second).await?.is_some(), true, "the job of another document");
    Ok(())
}

/// The space of searches changes under its former value only.
async fn serving(context: &Context) -> Outcome {
    let (store, org) = (context.stores.passages(), &context.org);
    let space = |name: &str| ServingSpace { model: format!("own/{name}"), space: name.to_owned() };
    same!(store.serving_space(org).await?, None, "the space of an organization without vectors");
    same!(store.set_serving_space(org, None, &space("a")).await?, true, "a first space");
    same!(store.set_serving_space(org, None, &space("b")).await?, false, "a second first space");
    same!(store.set_serving_space(org, Some(&space("a")), &space("b")).await?, true, "another space");
    same!(store.serving_space(org).await?, Some(space("b")), "the space of searches");
    same!(store.serving_space(&context.other()).await?, None, "the space of another organization");
    Ok(())
}
