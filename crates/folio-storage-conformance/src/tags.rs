//! [`folio_storage::TagStore`].

use folio_resources::{Prompt, Tag, TagChange, TagFilter};
use folio_types::TagId;
use folio_types::op::{Decided, Expected, OpResult};
use folio_types::page::PageRequest;

use super::context::{Context, create_tag, done};
use super::paging::{Names, orders};
use super::{Failure, Outcome, check, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    life(context).await?;
    names(context).await?;
    one_of_many_wins(context).await?;
    in_use(context).await?;
    lists(context).await
}

fn rename(name: &str) -> TagChange {
    TagChange::Update { name: Some(name.to_owned()), color: None, description: None }
}

async fn life(context: &Context) -> Outcome {
    let store = context.stores.of::<Tag>();
    let id = context.tag_id();
    let change = TagChange::Create { name: "Life".into(), color: Some("#ff0000".into()), description: None };
    let write = context.write(Expected::Absent, change)?;
    let result = done(store.decide(&id, write.clone()).await?)?;
    same!(result, OpResult::Resource { id: id.to_string(), name: "Life".into() }, "the result of a creation");
    let tag = store.get(&context.org, &id).await?.ok_or_else(|| Failure("a new tag is missing".into()))?;
    same!((tag.version, tag.color.as_deref(), tag.created_at), (1, Some("#ff0000"), write.at), "a new tag");
    same!(store.get(&context.other(), &id).await?, None, "a tag of another organization");

    let change = TagChange::Update { name: None, color: Some(None), description: Some(Some("why".into())) };
    let write = context.write(Expected::Version(1), change.clone())?;
    done(store.decide(&id, write.clone()).await?)?;
    let tag = store.get(&context.org, &id).await?.ok_or_else(|| Failure("a tag is missing".into()))?;
    same!((tag.version, tag.color, tag.updated_at), (2, None, write.at), "a changed tag");
    done(store.decide(&id, context.write(Expected::Version(2), change)?).await?)?;
    same!(store.get(&context.org, &id).await?.map(|tag| tag.version), Some(2), "the version after no change");

    for expected in [Expected::Absent, Expected::Version(1), Expected::Version(3)] {
        let moved = store.decide(&id, context.write(expected, rename("Other"))?).await?;
        same!(moved, Decided::Moved, "a write expecting {expected:?} of version 2");
    }
    same!(store.get(&context.org, &id).await?.map(|tag| tag.name), Some("Life".into()), "the name after such writes");
    let nobody = context.tag_id();
    let write = context.write(Expected::Version(1), rename("Nobody"))?;
    refused!(store.decide(&nobody, write).await, NotFound, "a change of what never was");

    let deleted = done(store.decide(&id, context.write(Expected::Version(2), TagChange::Delete)?).await?)?;
    same!(deleted, OpResult::Deleted, "the result of a deletion");
    same!(store.get(&context.org, &id).await?, None, "a deleted tag");
    let late = store.decide(&id, context.write(Expected::Version(1), rename("Back"))?).await?;
    same!(late, Decided::Moved, "a write expecting version 1 of what was deleted at version 2");
    Ok(())
}

async fn names(context: &Context) -> Outcome {
    let store = context.stores.of::<Tag>();
    let (one, other) = (context.tag("Straße").await?, context.tag("Second").await?);
    let create = context.write(Expected::Absent, create_tag("STRASSE"))?;
    done(store.decide(&context.tag_id(), create).await?)?;
    let again = context.write(Expected::Absent, create_tag("straße"))?;
    let third = context.tag_id();
    refused!(store.decide(&third, again.clone()).await, NameTaken, "a name that is taken but for case");
    same!(store.get(&context.org, &third).await?, None, "a tag whose name was taken");
    let taken = context.write(Expected::Version(1), rename("sTRAßE"))?;
    refused!(store.decide(&other, taken).await, NameTaken, "a renaming to a name that is taken but for case");
    let found = store.by_name(&context.org, "SECOND").await?.map(|tag| tag.id);
    same!(found, Some(other.clone()), "a tag by its name in other case");
    done(store.decide(&other, context.write(Expected::Version(1), rename("SECOND"))?).await?)?;
    done(store.decide(&one, context.write(Expected::Version(1), rename("First"))?).await?)?;
    same!(store.by_name(&context.org, "straße").await?, None, "a name that was given up");
    done(store.decide(&third, again).await?)?;
    let write = context.write(Expected::Version(1), TagChange::Delete)?;
    done(store.decide(&third, write).await?)?;
    same!(store.by_name(&context.org, "straße").await?, None, "the name of a deleted tag");
    context.tag("STRAßE").await?;
    Ok(())
}

async fn one_of_many_wins(context: &Context) -> Outcome {
    let attempts = (0..8).map(|_| async {
        let id = context.tag_id();
        let write = context.write(Expected::Absent, create_tag("wanted by all"))?;
        Ok::<_, Failure>(context.stores.of::<Tag>().decide(&id, write).await.is_ok())
    });
    let won = futures::future::try_join_all(attempts).await?.into_iter().filter(|won| *won).count();
    same!(won, 1, "how many got one name at once");
    Ok(())
}

async fn in_use(context: &Context) -> Outcome {
    let store = context.stores.of::<Tag>();
    let (by_document, by_prompt) = (context.tag("of document").await?, context.tag("of prompt").await?);
    let document = context.document("user.txt", std::slice::from_ref(&by_document)).await?;
    let prompt = context.prompt("user", None, std::slice::from_ref(&by_prompt)).await?;
    for (tag, user) in [(&by_document, "user.txt"), (&by_prompt, prompt.of.as_str())] {
        let error = store.decide(tag, context.write(Expected::Version(1), TagChange::Delete)?).await;
        let Err(error) = error else { return Err(Failure(format!("a tag in use by {user} was deleted"))) };
        check!(error.reason == folio_types::Reason::InUse, "a tag in use: {error}");
        check!(error.message.contains(user), "the error does not say who uses the tag: {error}");
        check!(store.get(&context.org, tag).await?.is_some(), "a tag in use is gone");
    }
    context.delete_document(&document).await?;
    delete(context, &by_document).await?;
    let change = folio_resources::PromptChange::Delete;
    done(context.stores.of::<Prompt>().decide(&prompt.of, context.write(Expected::Version(1), change)?).await?)?;
    delete(context, &by_prompt).await
}

async fn delete(context: &Context, tag: &TagId) -> Outcome {
    let write = context.write(Expected::Version(1), TagChange::Delete)?;
    done(context.stores.of::<Tag>().decide(tag, write).await?).map(|_| ())
}

async fn lists(context: &Context) -> Outcome {
    let context = Context::new(context.stores.clone(), "tags-lists", context.org.as_str());
    let created = ["delta", "Alpha", "charlie", "Bravo", "echo"];
    let mut ids = Vec::new();
    for name in created {
        ids.push(context.tag(name).await?);
    }
    let gone = context.tag("gone").await?;
    delete(&context, &gone).await?;
    let list = |name_search: Option<&str>| {
        let filter = TagFilter { name_search: name_search.map(str::to_owned) };
        let context = &context;
        move |page: PageRequest| {
            let filter = filter.clone();
            async move {
                let page = context.stores.of::<Tag>().list(&context.org, &filter, &page).await?;
                let names = page.items.into_iter().map(|tag| tag.name).collect();
                Ok(Names { names, next: page.next, total: page.total })
            }
        }
    };
    orders(&created, list(None)).await?;
    orders(&["delta", "Alpha", "charlie", "Bravo"], list(Some("A"))).await?;
    let token = list(None)(PageRequest { size: 1, ..PageRequest::default() }).await?.next;
    let foreign = list(Some("a"))(PageRequest { size: 1, token, ..PageRequest::default() }).await;
    refused!(foreign.map(|page| page.names), InvalidPageToken, "the token of a list with another filter");
    let asked: Vec<TagId> = ids.get(1).into_iter().chain([&gone]).chain(ids.first()).cloned().collect();
    let many = context.stores.of::<Tag>().get_many(&context.org, &asked).await?;
    same!(many.into_iter().map(|tag| tag.name).collect::<Vec<_>>(), ["Alpha", "delta"], "several tags as asked");
    Ok(())
}
