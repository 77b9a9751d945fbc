//! [`folio_storage::ExtractionStore`].

use folio_resources::{Extraction, ExtractionChange, ExtractionFilter, Resource as _};
use folio_types::op::{Decided, Expected, OpKey, OpResult, OpRow, OpState};
use folio_types::page::PageRequest;
use folio_types::{DocumentId, ExtractionId, PromptRevId};
use serde_json::{Value, json};

use super::context::{Context, create_extraction, done};
use super::paging::{Names, orders};
use super::{Failure, Outcome, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    life(context).await?;
    of_deleted_document(context).await?;
    forgotten(context).await?;
    newest_and_lists(context).await
}

fn of(document: &DocumentId, prompt: Option<&PromptRevId>) -> ExtractionFilter {
    ExtractionFilter { document: document.clone(), prompt: prompt.cloned() }
}

async fn get(context: &Context, id: &ExtractionId) -> Result<Extraction, Failure> {
    let found = context.stores.of::<Extraction>().get(&context.org, id).await?;
    found.ok_or_else(|| Failure("an extraction is missing".to_owned()))
}

async fn change(
    context: &Context,
    id: &ExtractionId,
    version: u64,
    change: ExtractionChange,
) -> Result<OpResult, Failure> {
    done(context.stores.of::<Extraction>().decide(id, context.write(Expected::Version(version), change)?).await?)
}

async fn life(context: &Context) -> Outcome {
    let (store, id) = (context.stores.of::<Extraction>(), context.extraction_id());
    let document = context.document("read.txt", &[]).await?;
    let prompt = PromptRevId::new(context.prompt_id(), 3);
    let original = json!({"zeta": 1, "alpha": [31.245270191439438, null, "ü"]});
    let result =
        |data| OpResult::Extraction { id: id.clone(), document: document.clone(), prompt: prompt.clone(), data };
    let create = create_extraction(&document, &prompt, original.clone());
    let created = done(store.decide(&id, context.write(Expected::Absent, create)?).await?)?;
    same!(created, result(original.clone()), "the result of a creation");
    let text = get(context, &id).await?.original.to_string();
    same!(text, original.to_string(), "the data, in the order of its members");
    same!(store.get(&context.other(), &id).await?, None, "an extraction of another organization");

    change(context, &id, 1, ExtractionChange::Verify { verified: true }).await?;
    let verified = get(context, &id).await?;
    same!(
        (verified.version, verified.verified, verified.verified_by),
        (2, true, Some(context.user.clone())),
        "verified"
    );
    let edited = json!({"zeta": 2});
    let edit = change(context, &id, 2, ExtractionChange::Edit { data: edited.clone() }).await?;
    same!(edit, result(edited.clone()), "the result of an edit");
    let after = get(context, &id).await?;
    same!((after.verified, after.verified_by), (false, None), "whether an edited one is verified");
    same!((after.original, after.edited), (original, Some(edited)), "the original and the edited form");
    let moved = context.write(Expected::Version(2), ExtractionChange::Verify { verified: true })?;
    same!(store.decide(&id, moved).await?, Decided::Moved, "a write expecting an older version");
    same!(change(context, &id, 3, ExtractionChange::Delete).await?, OpResult::Deleted, "the result of a deletion");
    same!(store.get(&context.org, &id).await?, None, "a deleted extraction");
    let late = context.write(Expected::Version(1), ExtractionChange::Verify { verified: true })?;
    same!(store.decide(&id, late).await?, Decided::Moved, "a write expecting version 1 of what was deleted at 3");
    Ok(())
}

async fn of_deleted_document(context: &Context) -> Outcome {
    let store = context.stores.of::<Extraction>();
    let document = context.document("gone.txt", &[]).await?;
    let prompt = PromptRevId::new(context.prompt_id(), 1);
    let before = context.extraction(&document, &prompt, json!({})).await?;
    context.delete_document(&document).await?;
    let id = context.extraction_id();
    let create = create_extraction(&document, &prompt, json!({}));
    refused!(store.decide(&id, context.write(Expected::Absent, create)?).await, NotFound, "one of a deleted document");
    same!(store.get(&context.org, &id).await?, None, "an extraction that was refused");
    let edit = context.write(Expected::Version(1), ExtractionChange::Edit { data: json!(1) })?;
    same!(store.decide(&before, edit).await?, Decided::Moved, "an edit that was under way when the document went");
    same!(store.first(&context.org, &of(&document, None)).await?, None, "the newest of a deleted document");
    let page = store.list(&context.org, &of(&document, None), &PageRequest::default()).await?;
    same!((page.items, page.total), (vec![], 0), "the extractions of a deleted document");
    let never = context.document_id();
    let create = create_extraction(&never, &prompt, json!({}));
    refused!(store.decide(&id, context.write(Expected::Absent, create)?).await, NotFound, "one of no document");
    Ok(())
}

/// What a deleted extraction held is forgotten: its op rows hold ids and times only.
async fn forgotten(context: &Context) -> Outcome {
    let (store, ops) = (context.stores.of::<Extraction>(), &context.stores.ops);
    let document = context.document("forgotten.txt", &[]).await?;
    let prompt = PromptRevId::new(context.prompt_id(), 1);
    let kept = context.extraction(&document, &prompt, json!({"kept": 1})).await?;
    let id = context.extraction_id();
    let create = create_extraction(&document, &prompt, json!({"secret": 1}));
    let create = context.write(Expected::Absent, create)?;
    done(store.decide(&id, create.clone()).await?)?;
    let edit = context.write(Expected::Version(1), ExtractionChange::Edit { data: json!({"secret": 2}) })?;
    done(store.decide(&id, edit.clone()).await?)?;
    let stay = context.write(Expected::Version(1), ExtractionChange::Edit { data: json!({"kept": 2}) })?;
    done(store.decide(&kept, stay.clone()).await?)?;
    let delete = context.write(Expected::Version(2), ExtractionChange::Delete)?;
    done(store.decide(&id, delete.clone()).await?)?;
    let data = async |id: &ExtractionId, op: &OpKey| match ops.row(&context.org, &Extraction::target(id), op).await {
        Ok(Some(OpRow { state: OpState::Done(OpResult::Extraction { data, .. }), .. })) => Ok(data),
        other => Err(Failure(format!("an op row of an extraction: {other:?}"))),
    };
    while store.scrub_deleted(edit.at, 2).await? == 2 {}
    same!(data(&id, &edit.op).await?, json!({"secret": 2}), "what an op row holds before its time is over");
    same!(store.scrub_deleted(delete.at, 0).await?, 0, "extractions forgotten, none asked for");
    while store.scrub_deleted(delete.at, 2).await? == 2 {}
    for op in [&create.op, &edit.op] {
        same!(data(&id, op).await?, Value::Null, "what an op row of a deleted extraction holds");
    }
    same!(data(&kept, &stay.op).await?, json!({"kept": 2}), "what an op row of another extraction holds");
    same!(done(store.decide(&id, delete).await?)?, OpResult::Deleted, "a deletion repeated after that");
    Ok(())
}

async fn newest_and_lists(context: &Context) -> Outcome {
    let store = context.stores.of::<Extraction>();
    let document = context.document("many.txt", &[]).await?;
    let other = context.document("other.txt", &[]).await?;
    let (one, two) = (PromptRevId::new(context.prompt_id(), 1), PromptRevId::new(context.prompt_id(), 1));
    let mut made = Vec::new();
    for prompt in [&one, &two, &one, &two] {
        made.push(context.extraction(&document, prompt, json!({})).await?);
    }
    context.extraction(&other, &one, json!({})).await?;
    if let [_, _, third, fourth] = made.as_slice() {
        change(context, fourth, 1, ExtractionChange::Delete).await?;
        let newest = store.first(&context.org, &of(&document, None)).await?.map(|found| found.id);
        same!(newest.as_ref(), Some(third), "the newest extraction");
    }
    let newest = store.first(&context.org, &of(&document, Some(&two))).await?.map(|found| found.id);
    same!(newest.as_ref(), made.get(1), "the newest extraction of a prompt");
    let nobody = PromptRevId::new(one.of.clone(), 2);
    same!(store.first(&context.org, &of(&document, Some(&nobody))).await?, None, "the newest of a prompt without any");
    let ids: Vec<_> = made.iter().take(3).map(ToString::to_string).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let mut request = PageRequest { size: 2, ..PageRequest::default() };
    let mut seen = Vec::new();
    loop {
        let page = store.list(&context.org, &of(&document, None), &request).await?;
        same!(page.total, 3, "how many extractions a document has");
        seen.extend(page.items.into_iter().map(|found| found.id.to_string()));
        let Some(token) = page.next else { break };
        request.token = Some(token);
    }
    seen.reverse();
    same!(seen, ids, "the extractions of a document, newest first");
    let (other, store) = (&other, &store);
    let list = |page: PageRequest| async move {
        let page = store.list(&context.org, &of(other, None), &page).await?;
        Ok(Names { names: page.items.iter().map(|_| "one".to_owned()).collect(), next: page.next, total: page.total })
    };
    orders(&["one"], list).await
}
