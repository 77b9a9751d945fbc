//! [`folio_storage::SchemaStore`].

use folio_resources::{Prompt, PromptChange, Schema, SchemaChange, SchemaFilter};
use folio_types::op::{Decided, Expected, OpResult};
use folio_types::page::{Order, PageRequest};
use folio_types::{SchemaId, SchemaRevId};
use serde_json::{Value, json};

use super::context::{Context, create_schema, done};
use super::paging::{Names, orders};
use super::{Failure, Outcome, check, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    revisions(context).await?;
    names(context).await?;
    in_use(context).await?;
    lists(context).await
}

fn update(name: Option<&str>, format: Option<Value>) -> SchemaChange {
    SchemaChange::Update { name: name.map(str::to_owned), response_format: format.map(|format| (format, true)) }
}

async fn decide(
    context: &Context,
    id: &SchemaId,
    expected: Expected,
    change: SchemaChange,
) -> Result<OpResult, Failure> {
    done(context.stores.of::<Schema>().decide(id, context.write(expected, change)?).await?)
}

async fn revisions(context: &Context) -> Outcome {
    let (store, org, id) = (context.stores.of::<Schema>(), &context.org, context.schema_id());
    let revid = |version| SchemaRevId::new(id.clone(), version);
    let result = |version, name: &str, revised| OpResult::Schema { revid: revid(version), name: name.into(), revised };
    let first = decide(context, &id, Expected::Absent, create_schema("Invoice", &json!({"a": 1}))).await?;
    same!(first, result(1, "Invoice", true), "the result of a creation");
    let second = decide(context, &id, Expected::Version(1), update(None, Some(json!({"a": 2})))).await?;
    same!(second, result(2, "Invoice", true), "the result of a new format");
    let same = decide(context, &id, Expected::Version(2), update(Some("Invoice"), Some(json!({"a": 2})))).await?;
    same!(same, result(2, "Invoice", false), "the result of an update that changes nothing");
    let renamed = decide(context, &id, Expected::Version(2), update(Some("Bill"), None)).await?;
    same!(renamed, result(2, "Bill", false), "the result of a renaming");
    let moved = store.decide(&id, context.write(Expected::Version(2), SchemaChange::Delete)?).await?;
    same!(moved, Decided::Moved, "a write expecting the version before a renaming");

    let schema = store.get(org, &id).await?.ok_or_else(|| Failure("a schema is missing".into()))?;
    same!((schema.version, schema.latest.revid), (3, revid(2)), "the newest revision");
    for (version, format) in [(1, json!({"a": 1})), (2, json!({"a": 2}))] {
        let found = store.revision(org, &revid(version)).await?;
        let found = found.ok_or_else(|| Failure(format!("revision {version} is missing")))?;
        same!((found.name.as_str(), found.response_format, found.strict), ("Bill", format, true), "a revision");
    }
    same!(store.revision(org, &revid(3)).await?, None, "a revision that is not there");
    same!(store.revision(&context.other(), &revid(1)).await?, None, "a revision in another organization");
    let both = store.revisions(org, &[revid(2), revid(9), revid(1)]).await?;
    let both: Vec<_> = both.into_iter().map(|found| found.revid.version).collect();
    same!(both, [2, 1], "several revisions as asked");
    for (order, expected) in [(Order::Newest, [2, 1]), (Order::Oldest, [1, 2])] {
        let (mut seen, mut page) = (Vec::new(), PageRequest { size: 1, order, ..PageRequest::default() });
        loop {
            let part = store.versions(org, &id, &page).await?;
            same!(part.total, 2, "how many revisions there are");
            seen.extend(part.items.into_iter().map(|revision| revision.revid.version));
            let Some(token) = part.next else { break };
            page.token = Some(token);
        }
        same!(seen, expected, "the revisions by {order:?}");
    }
    decide(context, &id, Expected::Version(3), SchemaChange::Delete).await?;
    same!(store.get(org, &id).await?, None, "a deleted schema");
    same!(store.revision(org, &revid(1)).await?, None, "a revision of a deleted schema");
    same!(store.versions(org, &id, &PageRequest::default()).await?.total, 0, "revisions of a deleted schema");
    let back = context.write(Expected::Version(1), update(Some("Back"), None))?;
    same!(store.decide(&id, back).await?, Decided::Moved, "a write expecting version 1 of what was deleted at 3");
    Ok(())
}

async fn names(context: &Context) -> Outcome {
    let store = context.stores.of::<Schema>();
    let one = context.schema("Receipt").await?;
    let taken = context.write(Expected::Absent, create_schema("RECEIPT", &json!({})))?;
    refused!(store.decide(&context.schema_id(), taken).await, NameTaken, "a name that is taken but for case");
    let other = context.schema("Letter").await?;
    let taken = context.write(Expected::Version(1), update(Some("receipt"), None))?;
    refused!(store.decide(&other.of, taken).await, NameTaken, "a renaming to a name that is taken but for case");
    let found = store.by_name(&context.org, "rECEIPT").await?.map(|schema| schema.id);
    same!(found, Some(one.of.clone()), "a schema by its name in other case");
    context.tag("Receipt").await?;
    decide(context, &one.of, Expected::Version(1), SchemaChange::Delete).await?;
    same!(store.by_name(&context.org, "Receipt").await?, None, "the name of a deleted schema");
    decide(context, &other.of, Expected::Version(1), update(Some("receipt"), None)).await?;
    Ok(())
}

async fn in_use(context: &Context) -> Outcome {
    let (store, prompts) = (context.stores.of::<Schema>(), context.stores.of::<Prompt>());
    let used = context.schema("Used").await?;
    let prompt = context.prompt("uses a schema", Some(&used), &[]).await?;
    let delete = || context.write(Expected::Version(1), SchemaChange::Delete);
    let Err(error) = store.decide(&used.of, delete()?).await else {
        return Err(Failure("a schema in use was deleted".into()));
    };
    check!(error.reason == folio_types::Reason::InUse, "a schema in use: {error}");
    check!(error.message.contains("uses a schema"), "the error does not say who uses the schema: {error}");
    let unlink = PromptChange::Update { name: None, content: None, schema: Some(None), model: None, tags: None };
    done(prompts.decide(&prompt.of, context.write(Expected::Version(1), unlink)?).await?)?;
    refused!(store.decide(&used.of, delete()?).await, InUse, "a schema that an older revision of a prompt uses");
    done(prompts.decide(&prompt.of, context.write(Expected::Version(2), PromptChange::Delete)?).await?)?;
    done(store.decide(&used.of, delete()?).await?)?;
    Ok(())
}

async fn lists(context: &Context) -> Outcome {
    let context = Context::new(context.stores.clone(), "schemas-lists", context.org.as_str());
    let created = ["delta", "Alpha", "charlie", "Bravo"];
    let mut renamed = None;
    for name in created {
        renamed = Some(context.schema(if name == "Bravo" { "before" } else { name }).await?);
    }
    if let Some(revid) = renamed {
        decide(&context, &revid.of, Expected::Version(1), update(Some("Bravo"), Some(json!({"new": true})))).await?;
    }
    let list = |name_search: Option<&str>| {
        let (context, filter) = (&context, SchemaFilter { name_search: name_search.map(str::to_owned) });
        move |page: PageRequest| {
            let filter = filter.clone();
            async move {
                let page = context.stores.of::<Schema>().list(&context.org, &filter, &page).await?;
                let names = page.items.into_iter().map(|schema| schema.latest.name).collect();
                Ok(Names { names, next: page.next, total: page.total })
            }
        }
    };
    orders(&created, list(None)).await?;
    orders(&["Alpha", "charlie"], list(Some("h"))).await?;
    orders(&[], list(Some("nothing"))).await
}
