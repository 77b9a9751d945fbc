//! [`folio_storage::PromptStore`].

use folio_resources::{Prompt, PromptChange, PromptFilter, Schema, SchemaChange, Tag, TagChange};
use folio_types::op::{Decided, Expected, OpResult};
use folio_types::page::PageRequest;
use folio_types::{PromptId, PromptRevId, SchemaRevId, TagId};

use super::context::{Context, create_prompt, done};
use super::paging::{Names, orders};
use super::{Failure, Outcome, check, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    revisions(context).await?;
    references(context).await?;
    names(context).await?;
    lists(context).await
}

fn content(text: &str) -> PromptChange {
    PromptChange::Update { name: None, content: Some(text.to_owned()), schema: None, model: None, tags: None }
}

fn rename(name: &str) -> PromptChange {
    PromptChange::Update { name: Some(name.to_owned()), content: None, schema: None, model: None, tags: None }
}

fn tagged(tags: &[TagId]) -> PromptChange {
    PromptChange::Update { name: None, content: None, schema: None, model: None, tags: Some(tags.to_vec()) }
}

async fn decide(
    context: &Context,
    id: &PromptId,
    expected: Expected,
    change: PromptChange,
) -> Result<OpResult, Failure> {
    done(context.stores.of::<Prompt>().decide(id, context.write(expected, change)?).await?)
}

async fn revisions(context: &Context) -> Outcome {
    let (store, org, id) = (context.stores.of::<Prompt>(), &context.org, context.prompt_id());
    let revid = |version| PromptRevId::new(id.clone(), version);
    let schema = context.schema("of the prompt").await?;
    let tag = context.tag("of the prompt").await?;
    let result = |version, name: &str, revised| OpResult::Prompt {
        revid: revid(version),
        name: name.into(),
        schema: Some(schema.clone()),
        revised,
    };
    let create = create_prompt("Read", Some(&schema), &[tag.clone(), tag.clone()]);
    same!(decide(context, &id, Expected::Absent, create).await?, result(1, "Read", true), "a creation");
    let latest = store.get(org, &id).await?.ok_or_else(|| Failure("a new prompt is missing".into()))?.latest;
    same!(latest.tags, vec![tag], "tags without doubles");
    let change = content("Read well.");
    same!(decide(context, &id, Expected::Version(1), change).await?, result(2, "Read", true), "new content");
    let change = content("Read well.");
    same!(decide(context, &id, Expected::Version(2), change).await?, result(2, "Read", false), "the same content");
    let change = rename("Scan");
    same!(decide(context, &id, Expected::Version(2), change).await?, result(2, "Scan", false), "a renaming");
    let prompt = store.get(org, &id).await?.ok_or_else(|| Failure("a prompt is missing".into()))?;
    same!((prompt.version, prompt.latest.content.as_str()), (3, "Read well."), "the newest revision");
    let first = store.revision(org, &revid(1)).await?.ok_or_else(|| Failure("a revision is missing".into()))?;
    same!((first.name.as_str(), first.content.as_str()), ("Scan", "Read it."), "the first revision");
    same!(store.revision(org, &revid(3)).await?, None, "a revision that is not there");
    same!(store.revision(&context.other(), &revid(1)).await?, None, "a revision in another organization");
    let versions = store.versions(org, &id, &PageRequest::default()).await?;
    let numbers: Vec<_> = versions.items.iter().map(|revision| revision.revid.version).collect();
    same!((versions.total, numbers), (2, vec![2, 1]), "the revisions, newest first");
    let moved = store.decide(&id, context.write(Expected::Version(2), content("Late."))?).await?;
    same!(moved, Decided::Moved, "a write expecting an older version");
    decide(context, &id, Expected::Version(3), PromptChange::Delete).await?;
    same!(store.get(org, &id).await?, None, "a deleted prompt");
    same!(store.revision(org, &revid(2)).await?, None, "a revision of a deleted prompt");
    let late = store.decide(&id, context.write(Expected::Version(1), content("Back."))?).await?;
    same!(late, Decided::Moved, "a write expecting version 1 of what was deleted at 3");
    Ok(())
}

async fn references(context: &Context) -> Outcome {
    let store = context.stores.of::<Prompt>();
    let (schema, tag) = (context.schema("gone").await?, context.tag("gone").await?);
    let dead_schema = schema.clone();
    let write = context.write(Expected::Version(1), SchemaChange::Delete)?;
    done(context.stores.of::<Schema>().decide(&schema.of, write).await?)?;
    let write = context.write(Expected::Version(1), TagChange::Delete)?;
    done(context.stores.of::<Tag>().decide(&tag, write).await?)?;
    let no_revision = SchemaRevId::new(context.schema("alive").await?.of, 7);
    let id = context.prompt_id();
    for (schema, tags) in [(Some(&dead_schema), vec![]), (Some(&no_revision), vec![]), (None, vec![tag.clone()])] {
        let write = context.write(Expected::Absent, create_prompt("refers", schema, &tags))?;
        refused!(store.decide(&id, write).await, NotFound, "a prompt for {schema:?} and {tags:?}");
    }
    same!(store.get(&context.org, &id).await?, None, "a prompt that was refused");
    same!(store.by_name(&context.org, "refers").await?, None, "the name of a prompt that was refused");
    let id = context.prompt("refers", None, &[]).await?.of;
    let write = context.write(Expected::Version(1), tagged(&[tag]))?;
    refused!(store.decide(&id, write).await, NotFound, "a change to a tag that is gone");
    same!(store.get(&context.org, &id).await?.map(|prompt| prompt.version), Some(1), "the version after that");

    let kept = context.tag("kept by a revision").await?;
    decide(context, &id, Expected::Version(1), tagged(std::slice::from_ref(&kept))).await?;
    decide(context, &id, Expected::Version(2), tagged(&[])).await?;
    let delete = context.write(Expected::Version(1), TagChange::Delete)?;
    refused!(context.stores.of::<Tag>().decide(&kept, delete).await, InUse, "a tag that an older revision has");
    decide(context, &id, Expected::Version(3), PromptChange::Delete).await?;
    let delete = context.write(Expected::Version(1), TagChange::Delete)?;
    done(context.stores.of::<Tag>().decide(&kept, delete).await?)?;
    Ok(())
}

async fn names(context: &Context) -> Outcome {
    let store = context.stores.of::<Prompt>();
    let one = context.prompt("Extract", None, &[]).await?;
    let taken = context.write(Expected::Absent, create_prompt("eXTRACT", None, &[]))?;
    refused!(store.decide(&context.prompt_id(), taken).await, NameTaken, "a name that is taken but for case");
    let found = store.by_name(&context.org, "EXTRACT").await?.map(|prompt| prompt.id);
    same!(found, Some(one.of.clone()), "a prompt by its name in other case");
    decide(context, &one.of, Expected::Version(1), PromptChange::Delete).await?;
    context.prompt("extract", None, &[]).await?;
    Ok(())
}

async fn lists(context: &Context) -> Outcome {
    let context = Context::new(context.stores.clone(), "prompts-lists", context.org.as_str());
    let (red, blue, free) = (context.tag("red").await?, context.tag("blue").await?, context.tag("free").await?);
    for (name, tags) in [("Both", vec![&red, &blue]), ("red only", vec![&red]), ("Blue", vec![&blue]), ("none", vec![])]
    {
        let tags: Vec<TagId> = tags.into_iter().cloned().collect();
        context.prompt(name, None, &tags).await?;
    }
    let document = context.document("red.txt", std::slice::from_ref(&red)).await?;
    let plain = context.document("plain.txt", &[]).await?;
    let list = |filter: PromptFilter| {
        let context = &context;
        move |page: PageRequest| {
            let filter = filter.clone();
            async move {
                let page = context.stores.of::<Prompt>().list(&context.org, &filter, &page).await?;
                let names = page.items.into_iter().map(|prompt| prompt.latest.name).collect();
                Ok(Names { names, next: page.next, total: page.total })
            }
        }
    };
    let all = PromptFilter::default();
    orders(&["Both", "red only", "Blue", "none"], list(all.clone())).await?;
    let search = PromptFilter { name_search: Some("O".into()), ..all.clone() };
    orders(&["Both", "red only", "none"], list(search)).await?;
    let any = PromptFilter { any_tag: vec![blue.clone(), free.clone()], ..all.clone() };
    orders(&["Both", "Blue"], list(any)).await?;
    orders(&["Both"], list(PromptFilter { all_tags: vec![blue, red], ..all.clone() })).await?;
    orders(&[], list(PromptFilter { all_tags: vec![free], ..all.clone() })).await?;
    let shared = PromptFilter { document: Some(document), ..all.clone() };
    orders(&["Both", "red only"], list(shared)).await?;
    let page = list(PromptFilter { document: Some(plain), ..all })(PageRequest::default()).await?;
    check!(page.names.is_empty() && page.total == 0, "prompts that share a tag with a document without tags");
    Ok(())
}
