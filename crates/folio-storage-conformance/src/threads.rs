//! Conformance suite of [`folio_storage::ThreadStore`], except the journals, which [`super::threads_append`] checks.

use folio_history::journal::{Entry, Imported, Summary, WorkingState};
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter, ThreadHeader};
use folio_resources::Schema;
use folio_types::message::{Message, Usage};
use folio_types::page::{Page, PageRequest};
use folio_types::profile::Subject;
use folio_types::{Digest, Incarnation, SchemaRevId, StackId, ThreadId, Timestamp, UserId};

use super::context::Context;
use super::paging::orders;
use super::threads_append::{self, appended, batch, ended};
use super::{Failure, Outcome, check, refused, same};

/// A limit above the number of rows that a system index has in any test.
const ALL: usize = 100_000;

pub(crate) async fn suite(context: &Context) -> Outcome {
    creation(context).await?;
    creation_by_request(context).await?;
    beginning(context).await?;
    threads_append::suite(context).await?;
    deletion(context).await?;
    prevention(context).await?;
    expiry(context).await?;
    lists(context).await
}

async fn header(context: &Context, id: &ThreadId) -> Result<ThreadHeader, Failure> {
    let found = context.stores.threads.header(&context.org, id).await?;
    found.ok_or_else(|| Failure("a thread is missing".to_owned()))
}

async fn creation(context: &Context) -> Outcome {
    let store = &context.stores.threads;
    let document = context.document("talk.txt").await?;
    let working =
        WorkingState { schema_revid: Some(SchemaRevId::new(context.id::<Schema>(), 2)), ..Default::default() };
    let import = |text: &str, working: &WorkingState| {
        let messages = vec![Message::user(text.to_owned())];
        Entry::Imported(Imported { messages, working: working.clone(), position: None })
    };
    let summary = Summary {
        turn: 0,
        from: 1,
        to: 1,
        messages: 1,
        text: "They greeted.".to_owned(),
        usage: Usage::default(),
        at: Timestamp::UNIX_EPOCH,
    };
    let imported = vec![import("before", &WorkingState::default()), import("after", &working), Entry::Summary(summary)];
    let new = NewThread {
        imported: imported.clone(),
        title: "Talk".into(),
        ..context.new_thread(std::slice::from_ref(&document))
    };
    same!(store.header(&context.org, &new.id).await?, None, "a thread before its creation");
    let made = store.create(new.clone()).await?;
    same!(header(context, &new.id).await?, made, "a new thread read back");
    same!(
        (made.epoch, made.version, made.turns, &made.owner, &made.open_turn),
        (0, 0, 0, &None, &None),
        "a new thread"
    );
    same!((made.entries, &made.working, made.title.as_str()), (3, &working, "Talk"), "a thread with a history");
    let entries = store.entries(&context.org, &new.id, 0, 10).await?;
    same!(entries.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>(), imported, "the imported entries");
    let again = NewThread { title: "Other".into(), imported: vec![], ..new.clone() };
    same!(store.create(again).await?, made, "a thread created again");
    context.delete_document(&document).await?;
    same!(store.create(new).await?, made, "a thread created again after the deletion of its document");
    let late = context.new_thread(&[document]);
    refused!(store.create(late.clone()).await, NotFound, "a thread about a deleted document");
    same!(store.header(&context.org, &late.id).await?, None, "a thread that was refused");
    Ok(())
}

async fn creation_by_request(context: &Context) -> Outcome {
    let store = &context.stores.threads;
    let row = threads_append::request(context, 0)?;
    let new = NewThread { request: Some(row.clone()), ..context.new_thread(&[]) };
    let made = store.create(new.clone()).await?;
    same!(store.request(&context.org, &new.id, &row.request).await?, Some(row.clone()), "the row of its request");
    same!(store.create(new.clone()).await?, made, "a thread created again by its request");
    let other = RequestRow { digest: Digest::of(b"other"), ..row };
    let other = NewThread { request: Some(other), title: "Other".into(), ..new };
    refused!(store.create(other).await, RequestIdConflict, "a request id with other content");
    same!(header(context, &made.id).await?, made, "the thread after a refused request");
    Ok(())
}

/// A thread and its first append are committed together or not at all.
async fn beginning(context: &Context) -> Outcome {
    let store = &context.stores.threads;
    let document = context.document("begun.txt").await?;
    let nothing = Fence { epoch: 0, version: 0 };
    let first_append = |context: &Context| -> Result<Append, Failure> {
        let mut first = batch(context, nothing, vec![ended(1, "first")]);
        first.new_owner = Some((1, Incarnation::derive(&["node"])));
        first.request = Some(threads_append::request(context, 1)?);
        first.change.title = Some("First".into());
        first.change.turns = Some(1);
        Ok(first)
    };
    let before = Imported { messages: vec![Message::user("before")], working: WorkingState::default(), position: None };
    let new = NewThread {
        imported: vec![Entry::Imported(before.clone())],
        ..context.new_thread(std::slice::from_ref(&document))
    };
    let first = first_append(context)?;
    let made = appended(store.begin(new.clone(), first.clone()).await?)?;
    same!(header(context, &new.id).await?, made, "a thread that began, read back");
    same!((made.epoch, made.version, made.entries, made.turns), (1, 1, 2, 1), "a thread that began");
    same!((made.title.as_str(), &made.documents), ("First", &vec![document.clone()]), "a thread that began");
    let journal = vec![(0, Entry::Imported(before)), (1, ended(1, "first"))];
    same!(store.entries(&context.org, &new.id, 0, 10).await?, journal, "the journal of a thread that began");
    check!(store.has_batch(&context.org, &new.id, first.batch).await?, "a first append left no batch row");
    if let Some(row) = &first.request {
        same!(
            store.request(&context.org, &new.id, &row.request).await?,
            first.request,
            "the request of a first append"
        );
    }

    // A repeated first append is committed once; a different one is refused and returns the request that has its id.
    same!(appended(store.begin(new.clone(), first.clone()).await?)?, made, "a first append sent again");
    for request in [first.request.clone(), first_append(context)?.request] {
        let stored = request.clone().filter(|_| request == first.request);
        let other = Append { request, ..first_append(context)? };
        let refused = Appended::Refused { header: Box::new(made.clone()), request: stored };
        same!(store.begin(new.clone(), other.clone()).await?, refused, "a thread begun over an existing one");
        check!(!store.has_batch(&context.org, &new.id, other.batch).await?, "a refused first append is committed");
    }
    let empty = store.create(context.new_thread(&[])).await?;
    let over = NewThread { id: empty.id.clone(), ..context.new_thread(&[]) };
    let refused = Appended::Refused { header: Box::new(empty.clone()), request: None };
    same!(store.begin(over, first_append(context)?).await?, refused, "a thread begun over one without entries");
    same!(header(context, &empty.id).await?, empty, "the thread after a refused request");

    // A refused append creates no thread, and a refused creation appends nothing.
    let late = context.new_thread(&[]);
    let back = Append { new_owner: Some((0, Incarnation::derive(&["node"]))), ..first_append(context)? };
    let odd = Append { fence: Fence { epoch: 0, version: 3 }, ..first_append(context)? };
    for first in [back, odd] {
        check!(store.begin(late.clone(), first.clone()).await.is_err(), "an invalid first append was accepted");
        same!(store.header(&context.org, &late.id).await?, None, "the thread of an append that failed");
        check!(!store.has_batch(&context.org, &late.id, first.batch).await?, "a failed append is committed");
    }
    context.delete_document(&document).await?;
    let about = context.new_thread(&[document]);
    refused!(
        store.begin(about.clone(), first_append(context)?).await,
        NotFound,
        "a beginning about a deleted document"
    );
    same!(store.header(&context.org, &about.id).await?, None, "a thread that was refused");
    store.delete(&context.org, &new.id, None).await?;
    refused!(store.begin(new.clone(), first).await, NotFound, "a removed thread begun again");
    same!(store.header(&context.org, &new.id).await?, None, "a removed thread after a refused write");
    Ok(())
}

async fn deletion(context: &Context) -> Outcome {
    let store = &context.stores.threads;
    let new = context.new_thread(&[]);
    store.delete(&context.org, &new.id, None).await?;
    let made = store.create(new.clone()).await?;
    let stale = made.fence();
    let mut append = batch(context, stale, vec![ended(1, "stale")]);
    append.request = Some(threads_append::request(context, 1)?);
    appended(store.append(&context.org, &new.id, append.clone()).await?)?;
    same!(store.removed_by(&context.org, &new.id).await?, None, "the remover of a live thread");
    let by = context.op()?;
    store.delete(&context.org, &new.id, Some(&by)).await?;
    same!(store.header(&context.org, &new.id).await?, None, "a deleted thread");
    store.delete(&context.org, &new.id, Some(&context.op()?)).await?;
    same!(store.removed_by(&context.org, &new.id).await?, Some(by), "the remover of a thread");
    same!(store.removed_by(&context.other(), &new.id).await?, None, "the remover of a thread of another organization");
    same!(store.entries(&context.org, &new.id, 0, 10).await?, vec![], "the journal of a deleted thread");
    check!(!store.has_batch(&context.org, &new.id, append.batch).await?, "a batch row outlived its thread");
    if let Some(row) = &append.request {
        same!(store.request(&context.org, &new.id, &row.request).await?, None, "the request row of a deleted thread");
    }
    let late = batch(context, Fence { version: made.version + 1, ..stale }, vec![]);
    refused!(store.append(&context.org, &new.id, late).await, NotFound, "an append to a deleted thread");

    // Invariant 3: op rows keyed by the calls of this thread outlive it, so its turn numbers must not be reused.
    refused!(store.create(new.clone()).await, NotFound, "a removed thread created again");
    same!(store.header(&context.org, &new.id).await?, None, "a removed thread after a refused write");
    for version in [made.version, made.version + 1] {
        let late = batch(context, Fence { epoch: made.epoch, version }, vec![ended(2, "late")]);
        refused!(store.append(&context.org, &new.id, late).await, NotFound, "an append to a removed thread");
    }
    store.delete(&context.org, &new.id, None).await?;
    Ok(())
}

/// A thread without a turn is removed, or its creation is prevented. A thread with a turn is not changed.
async fn prevention(context: &Context) -> Outcome {
    let store = &context.stores.threads;
    let at = |seconds: i64| Timestamp::constant(1_800_000_000 + seconds, 0);
    let absent = context.new_thread(&[]);
    check!(store.remove_unused(&context.org, &absent.id).await?, "a thread that does not exist was not prevented");
    refused!(store.create(absent.clone()).await, NotFound, "the creation of a prevented thread");
    same!(store.header(&context.org, &absent.id).await?, None, "a prevented thread");
    check!(store.remove_unused(&context.org, &absent.id).await?, "a prevented thread was not prevented again");
    store.delete(&context.org, &absent.id, None).await?;
    refused!(store.create(absent).await, NotFound, "the creation of a prevented thread after a deletion");

    let document = context.document("prevented.txt").await?;
    let documents = std::slice::from_ref(&document);
    let new = NewThread { ephemeral: true, expires_at: Some(at(10)), ..context.new_thread(documents) };
    let unused = store.create(new.clone()).await?;
    check!(store.remove_unused(&context.org, &unused.id).await?, "a thread without a turn was not removed");
    same!(store.header(&context.org, &unused.id).await?, None, "a removed thread without a turn");
    same!(expired(context, at(10)).await?, vec![], "the expiry of a removed thread without a turn");
    let late = batch(context, unused.fence(), vec![ended(1, "late")]);
    refused!(store.append(&context.org, &unused.id, late).await, NotFound, "a turn of a removed thread");
    refused!(store.create(new).await, NotFound, "the creation of a removed thread");

    let used = store.create(context.new_thread(documents)).await?;
    let mut first = batch(context, used.fence(), vec![ended(1, "first")]);
    first.change.turns = Some(1);
    let used = appended(store.append(&context.org, &used.id, first).await?)?;
    check!(!store.remove_unused(&context.org, &used.id).await?, "a thread with a turn was removed");
    same!(header(context, &used.id).await?, used, "a thread with a turn");
    store.delete(&context.org, &used.id, None).await?;
    Ok(())
}

async fn expired(context: &Context, now: Timestamp) -> Result<Vec<ThreadId>, Failure> {
    let rows = context.stores.threads.expired(now, ALL).await?;
    Ok(rows.into_iter().filter(|(org, _)| *org == context.org).map(|(_, id)| id).collect())
}

async fn expiry(context: &Context) -> Outcome {
    let store = &context.stores.threads;
    let at = |seconds: i64| Timestamp::constant(1_800_000_000 + seconds, 0);
    let document = context.document("expires.txt").await?;
    let kept = store.create(context.new_thread(&[])).await?.id;
    let short =
        NewThread { ephemeral: true, expires_at: Some(at(10)), ..context.new_thread(std::slice::from_ref(&document)) };
    let short = store.create(short).await?.id;
    let other = store.create(context.new_thread(std::slice::from_ref(&document))).await?.id;
    same!(expired(context, at(9)).await?, vec![], "expired threads before the time");
    same!(expired(context, at(10)).await?, vec![short.clone()], "expired threads at the time");
    store.expire_referrers(&context.org, document.as_str(), at(20)).await?;
    same!(expired(context, at(19)).await?, vec![short.clone()], "an earlier expiry after the deletion of its document");
    same!(
        expired(context, at(20)).await?,
        vec![short.clone(), other.clone()],
        "threads that expire with their document"
    );
    same!(header(context, &kept).await?.expires_at, None, "the expiry of a thread about something else");
    let before = header(context, &other).await?;
    same!((before.expires_at, before.version), (Some(at(20)), 0), "a thread that expires with its document");
    let fence = before.fence();
    let after = appended(store.append(&context.org, &other, batch(context, fence, vec![])).await?)?;
    same!(after.expires_at, Some(at(20)), "the expiry after an append");
    let read = header(context, &kept).await?;
    let seen = read.fence();
    appended(store.append(&context.org, &kept, batch(context, seen, vec![])).await?)?;
    let unused = async |id, fence, seconds| store.expire_unused(&context.org, id, fence, at(seconds)).await;
    same!(unused(&kept, seen, 5).await?, false, "the expiry of a thread that was used concurrently");
    let read = header(context, &kept).await?;
    let seen = read.fence();
    same!(unused(&kept, seen, 25).await?, true, "the expiry of an unused thread");
    same!(unused(&kept, seen, 26).await?, false, "a later expiry");
    same!(unused(&kept, seen, 15).await?, true, "an earlier expiry");
    same!(unused(&ThreadId::derive(&["unknown"]), seen, 15).await?, false, "the expiry of a missing thread");
    same!(header(context, &kept).await?.expires_at, Some(at(15)), "the expiry of an unused thread");
    same!(expired(context, at(14)).await?, vec![short.clone()], "expired threads before the expiry of the unused one");
    same!(expired(context, at(15)).await?, vec![short.clone(), kept.clone()], "expired threads with the unused one");
    store.delete(&context.org, &short, None).await?;
    store.delete(&context.org, &kept, None).await?;
    same!(expired(context, at(30)).await?, vec![other], "expired threads after a deletion");
    same!(store.expired(at(30), 0).await?, vec![], "expired threads with limit 0");
    Ok(())
}

async fn lists(context: &Context) -> Outcome {
    let context = Context::new(context.stores.clone(), "threads-lists", context.org.as_str());
    let store = &context.stores.threads;
    let document = context.document("listed.txt").await?;
    let (other_user, stack) = (UserId::derive(&["other"]), StackId::derive(&["stack", context.org.as_str()]));
    for (title, documents, user, profile) in [
        ("Second thoughts", vec![document.clone()], &context.user, "document"),
        ("first", vec![], &other_user, "document"),
        ("Ärger", vec![document.clone()], &context.user, "workspace"),
    ] {
        let subject = (title == "first").then(|| Subject::Stack(stack.clone()));
        let new = NewThread { user: user.clone(), profile: profile.into(), subject, ..context.new_thread(&documents) };
        let made = store.create(new).await?;
        let mut append = batch(&context, Fence { epoch: 0, version: 0 }, vec![]);
        append.change.title = Some(title.to_owned());
        appended(store.append(&context.org, &made.id, append).await?)?;
    }
    let hidden = NewThread { ephemeral: true, title: "hidden".into(), ..context.new_thread(&[]) };
    let hidden = store.create(hidden).await?.id;
    let deleted = store.create(context.new_thread(&[])).await?;
    store.delete(&context.org, &deleted.id, None).await?;
    let shared = &context;
    let list = |filter: ThreadFilter| {
        move |page: PageRequest| {
            let filter = filter.clone();
            let context = shared;
            async move {
                let page = context.stores.threads.list(&context.org, &filter, &page).await?;
                let items = page.items.into_iter().map(|thread| thread.title).collect();
                Ok(Page { items, next: page.next, total: page.total })
            }
        }
    };
    let all = ThreadFilter::default();
    orders(&["Second thoughts", "first", "Ärger"], list(all.clone())).await?;
    let search = ThreadFilter { title_search: Some("ÄR".into()), ..all.clone() };
    orders(&["Ärger"], list(search)).await?;
    orders(&["first"], list(ThreadFilter { user: Some(other_user), ..all.clone() })).await?;
    let about = ThreadFilter { document: Some(document), ..all.clone() };
    orders(&["Second thoughts", "Ärger"], list(about)).await?;
    orders(&["first"], list(ThreadFilter { stack: Some(stack), ..all.clone() })).await?;
    orders(&["Ärger"], list(ThreadFilter { profile: Some("workspace".into()), ..all })).await?;
    store.delete(&context.org, &hidden, None).await?;
    Ok(())
}
