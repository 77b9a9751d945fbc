//! Conformance suite of [`folio_storage::RowStore`], [`folio_storage::AccessStore`], [`folio_storage::AccountStore`],
//! [`folio_storage::BudgetStore`], [`folio_storage::IndexHolderStore`], [`folio_storage::RowFillStore`],
//! [`folio_storage::VectorCache`], [`folio_storage::LinkStore`], [`folio_storage::PassageStore`],
//! [`folio_storage::MessageImageStore`] and [`folio_storage::ImageAnnotationStore`].

use folio_credit::{Budget, Share};
use folio_resources::{Member, MemberWrite, PasswordHash, SESSIONS_MAX, Session, User};
use folio_storage::value::{IndexHolder, RowFill};
use folio_storage::{ConditionalRow, VectorKey};
use folio_types::access::Role;
use folio_types::{
    BudgetPart, BudgetRoot, BudgetUse, DocumentId, JobId, OrgId, SessionToken, StackId, System, ThreadId, TokenId,
    TurnId, UserId,
};

use super::context::Context;
use super::images::check_images;
use super::links;
use super::{Outcome, check, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    rows(context).await?;
    members(context).await?;
    uses(context).await?;
    accounts(context).await?;
    budgets(context).await?;
    vectors(context).await?;
    links::suite(context).await?;
    index_holders(context).await?;
    row_fills(context).await?;
    super::passages::check_passages(context).await?;
    check_images(context).await
}

/// A row is written under the values of the row and of its guard, and belongs to one group of one organization.
async fn rows(context: &Context) -> Outcome {
    let (store, org, group) = (&context.stores.rows, &context.org, "sample");
    let bytes = |text: &str| text.as_bytes().to_vec();
    let write = |key: &str, before: Option<&str>, after: &str, guard: Option<(&str, &str)>| ConditionalRow {
        group: group.to_owned(),
        key: key.to_owned(),
        before: before.map(bytes),
        after: bytes(after),
        guard: guard.map(|(key, value)| (key.to_owned(), bytes(value))),
    };
    let keys = ["b", "missing", "a"].map(str::to_owned);
    same!(store.get(org, group, &keys).await?, vec![None, None, None], "rows of an empty group");
    for (write, is_written, what) in [
        (write("a", Some("0"), "1", None), false, "a replacement of a missing row"),
        (write("a", None, "1", None), true, "a new row"),
        (write("a", None, "2", None), false, "an insertion of an existing row"),
        (write("b", None, "1", Some(("missing", "1"))), false, "a new row with a missing guard"),
        (write("b", None, "1", Some(("a", "1"))), true, "a new row with a guard"),
        (write("b", Some("1"), "2", Some(("a", "0"))), false, "a replacement whose guard was replaced"),
        (write("b", Some("1"), "2", Some(("a", "1"))), true, "a replacement with a guard"),
        (write("b", Some("1"), "3", None), false, "a replacement of a replaced value"),
    ] {
        same!(store.compare_and_set(org, write).await?, is_written, "{what}");
    }
    same!(store.get(org, group, &keys).await?, vec![Some(bytes("2")), None, Some(bytes("1"))], "rows by key");
    same!(store.list(org, group).await?, vec![bytes("1"), bytes("2")], "the rows of a group");
    same!(store.list(org, "sampl").await?.len(), 0, "the rows of another group");
    same!(store.list(&context.other(), group).await?.len(), 0, "rows of another organization");
    for (key, value, is_removed, what) in [
        ("b", "1", false, "a removal of a replaced value"),
        ("missing", "1", false, "a removal of a missing row"),
        ("b", "2", true, "a removal"),
        ("b", "2", false, "a removal of a removed row"),
    ] {
        same!(store.compare_and_remove(org, group, key, bytes(value)).await?, is_removed, "{what}");
    }
    same!(store.list(org, group).await?, vec![bytes("1")], "the rows of a group after a removal");
    check!(store.compare_and_set(org, write("b", None, "3", None)).await?, "a new row after a removal");
    check!(
        !store.compare_and_remove(&context.other(), group, "b", bytes("3")).await?,
        "a removal in another organization"
    );
    store.put(org, "plain", "a", bytes("1")).await?;
    store.put(org, "plain", "a", bytes("2")).await?;
    same!(store.list(org, "plain").await?, vec![bytes("2")], "a row that was written twice");
    store.remove(org, "plain", "a").await?;
    store.remove(org, "plain", "a").await?;
    same!(store.list(org, "plain").await?.len(), 0, "a removed row");
    let row = |key: &str| (key.to_owned(), bytes(key));
    for key in ["b/2", "a", "b/1", "c"] {
        store.put(org, "plain", key, bytes(key)).await?;
    }
    for (after, limit, expected, what) in [
        ("", 9, vec![row("a"), row("b/1"), row("b/2"), row("c")], "all rows in the order of their keys"),
        ("", 2, vec![row("a"), row("b/1")], "the first rows"),
        ("b/1", 2, vec![row("b/2"), row("c")], "the rows after a row"),
        ("b/", 1, vec![row("b/1")], "the rows after a key without a row"),
        ("c", 9, vec![], "the rows after the last row"),
        ("", 0, vec![], "no rows"),
    ] {
        same!(store.list_after(org, "plain", after, limit).await?, expected, "{what}");
    }
    same!(store.list_after(&context.other(), "plain", "", 9).await?.len(), 0, "rows of another organization in parts");
    for _ in 0..2 {
        store.remove_group(org, group).await?;
        same!(store.list(org, group).await?.len(), 0, "the rows of a removed group");
    }
    Ok(())
}

async fn members(context: &Context) -> Outcome {
    let store = context.stores.access();
    same!(store.members(&context.org).await?, Vec::new(), "members of a new organization");
    let user = UserId::derive(&["member", context.org.as_str()]);
    let member = Member::new(user.clone(), "max", Role::Member, context.now());
    check!(store.write_member(&context.org, MemberWrite::unguarded(None, member.clone())).await?, "a new member");
    same!(store.member(&context.org, &user).await?, Some(member.clone()), "a member");
    same!(store.member(&context.other(), &user).await?, None, "a member of another organization");
    let again = MemberWrite::unguarded(None, Member { name: "moritz".to_owned(), ..member.clone() });
    check!(!store.write_member(&context.org, again).await?, "an insertion of an existing member");
    let removed = Member { removed_at: Some(context.now()), role: Role::Viewer, ..member.clone() };
    let removal = MemberWrite::unguarded(Some(member.clone()), removed.clone());
    check!(store.write_member(&context.org, removal).await?, "the removal of a member");
    let renamed = Member { name: "moritz".to_owned(), ..member.clone() };
    let late = MemberWrite::unguarded(Some(member), renamed.clone());
    check!(!store.write_member(&context.org, late).await?, "a write with the value from before the removal");
    same!(store.members(&context.org).await?, vec![removed], "members after one was removed");
    let missing_member = Member { user: UserId::derive(&["missing_member", context.org.as_str()]), ..renamed.clone() };
    let missing = MemberWrite::unguarded(Some(missing_member.clone()), missing_member);
    check!(!store.write_member(&context.org, missing).await?, "a write to a missing member");
    let elsewhere = MemberWrite::unguarded(Some(renamed.clone()), renamed);
    check!(!store.write_member(&context.other(), elsewhere).await?, "a change of another organization's member");
    same!(store.members(&context.other()).await?, Vec::new(), "members of another organization");
    guard(context).await
}

/// A change that is guarded by another member: two admins demote each other, one after the other and concurrently.
async fn guard(context: &Context) -> Outcome {
    let (store, org) = (context.stores.access(), context.org.as_str());
    let admin = |name: &str| Member::new(UserId::derive(&[name, org]), name, Role::Admin, context.now());
    let demotion = |by: &Member, target: &Member| MemberWrite {
        before: Some(target.clone()),
        after: Member { role: Role::Viewer, ..target.clone() },
        guard: Some(by.clone()),
    };
    let all @ [one, two, three, four] = &["one", "two", "three", "four"].map(admin);
    for admin in all {
        check!(store.write_member(&context.org, MemberWrite::unguarded(None, admin.clone())).await?, "a new admin");
    }
    check!(store.write_member(&context.org, demotion(one, two)).await?, "a write with a guard");
    check!(!store.write_member(&context.org, demotion(two, one)).await?, "a write whose guard is no longer an admin");
    same!(store.member(&context.org, &one.user).await?, Some(one.clone()), "the remaining admin");
    let (first, second) = futures::try_join!(
        store.write_member(&context.org, demotion(three, four)),
        store.write_member(&context.org, demotion(four, three))
    )?;
    check!(!(first && second), "two admins demoted each other concurrently");
    let left = futures::try_join!(store.member(&context.org, &three.user), store.member(&context.org, &four.user))?;
    let left = [left.0, left.1].into_iter().flatten().filter(|member| member.role == Role::Admin).count();
    same!(left, 2 - usize::from(first) - usize::from(second), "the remaining admins");
    Ok(())
}

async fn uses(context: &Context) -> Outcome {
    let (store, org, at) = (context.stores.access(), &context.org, context.now());
    let tokens = ["unused", "used"].map(|name| TokenId::derive(&[name]));
    let [_, used] = &tokens;
    store.record_use(org, used, context.now()).await?;
    store.record_use(org, used, at).await?;
    same!(store.last_uses(org, &tokens).await?, vec![None, Some(at)], "the use that was stored last");
    same!(store.last_uses(&context.other(), &tokens).await?, vec![None, None], "uses in another organization");
    store.delete_use(org, used).await?;
    same!(store.last_uses(org, &tokens).await?, vec![None, None], "uses after their removal");
    Ok(())
}

/// Returns a user whose rows no other suite reads.
fn user(context: &Context, name: &str) -> User {
    let (id, at) = (UserId::derive(&[name, context.org.as_str()]), context.now());
    User {
        email: format!("{name}@example.com"),
        name: name.to_owned(),
        password: PasswordHash::new("$argon2id$".to_owned()),
        password_number: 1,
        platform: false,
        created_by: id.clone(),
        created_at: at,
        updated_at: at,
        version: 1,
        id,
    }
}

/// The sessions and the organizations of a user are those of no other user, and the number of both is bounded.
async fn accounts(context: &Context) -> Outcome {
    let (store, now) = (context.stores.accounts(), context.now());
    let [ann, bob] = ["ann", "bob"].map(|name| user(context, name));
    let session = |user: &User| Session::new(&SessionToken::generate(&user.id, &System), user, now);
    let (first, theirs) = (session(&ann), session(&bob));
    for (user, session) in [(&ann, &first), (&bob, &theirs)] {
        store.add_session(&user.id, session, now).await?;
    }
    same!(store.session(&ann.id, &first.id).await?, Some(first.clone()), "a session");
    same!(store.session(&bob.id, &first.id).await?, None, "a session of another user");
    let mut last = first.clone();
    for _ in 0..SESSIONS_MAX {
        last = session(&ann);
        last.created_at = now + std::time::Duration::from_secs(1);
        store.add_session(&ann.id, &last, now).await?;
    }
    same!(store.session(&ann.id, &first.id).await?, None, "the oldest session beyond the maximum");
    same!(store.sessions(&ann.id).await?.len(), SESSIONS_MAX, "the number of the sessions of a user");
    same!(store.sessions(&bob.id).await?, vec![theirs.clone()], "the sessions of another user");
    store.remove_session(&ann.id, &last.id).await?;
    same!(store.session(&ann.id, &last.id).await?, None, "a removed session");
    let another = session(&ann);
    store.add_session(&ann.id, &another, now).await?;
    store.remove_sessions(&ann.id).await?;
    same!(store.session(&ann.id, &another.id).await?, None, "a session after the removal of all");

    same!(store.organizations(&ann.id).await?, Vec::new(), "the organizations of a new user");
    let mut orgs = [context.org.clone(), context.other()];
    orgs.sort();
    for org in orgs.iter().chain(&orgs) {
        store.add_organization(&ann.id, org).await?;
    }
    same!(store.organizations(&ann.id).await?, orgs.to_vec(), "organizations that were added twice");
    store.remove_organization(&ann.id, &orgs[0]).await?;
    same!(store.organizations(&ann.id).await?, orgs[1..].to_vec(), "the organizations after the removal of one");
    store.add_session(&ann.id, &another, now).await?;
    for _ in 0..2 {
        store.erase(&ann.id).await?;
        same!(store.organizations(&ann.id).await?, Vec::<OrgId>::new(), "the organizations of an erased user");
        same!(store.session(&ann.id, &another.id).await?, None, "a session of an erased user");
    }
    same!(store.session(&bob.id, &theirs.id).await?, Some(theirs.clone()), "the session of another user");
    Ok(())
}

/// Concurrent calls never exceed a budget, each turn of a thread has a budget of its own, and a group divides its part.
async fn budgets(context: &Context) -> Outcome {
    let (store, org) = (context.stores.budgets(), &context.org);
    let thread = ThreadId::derive(&["budget", org.as_str()]);
    let turn = |number, credits| BudgetPart::whole(BudgetRoot::Turn(TurnId::new(thread.clone(), number)), credits);
    let [first, second] = [turn(1, 5), turn(2, 8)];
    same!(store.read(org, &first.root).await?, None, "the budget of a new turn");
    same!(store.use_of(org, &first).await?, Some(BudgetUse::unused(5)), "the use of an unused budget");
    let calls = ["a", "b", "c", "d"].map(|key| {
        let (store, first) = (store.clone(), first.clone());
        async move { store.change(org, &first, |budget| budget.reserve("", key, 2)).await }
    });
    let reserved = futures::future::join_all(calls).await;
    same!(reserved.iter().filter(|result| result.is_ok()).count(), 2, "permitted calls of a budget");
    for result in reserved.into_iter().filter(Result::is_err) {
        refused!(result, BudgetExhausted, "a call that exceeds the rest of the budget");
    }
    same!(store.use_of(org, &first).await?, Some(BudgetUse { credits: 5, used: 4, rest: 1 }), "the use of a budget");
    same!(store.read(&context.other(), &first.root).await?, None, "a budget of another organization");

    let job = second.child(JobId::derive(&["budget", org.as_str()]));
    let item = job.child(1);
    let grant = |budget: &mut Budget| budget.grant(&item.path, Share::Equal { open: 1 });
    refused!(store.change(org, &item, grant).await, BudgetExhausted, "a part of a group that has none");
    same!(store.use_of(org, &job).await?, None, "the use of a missing part");
    store.change(org, &job, |budget| budget.grant(&job.path, Share::Half)).await?;
    store.change(org, &item, grant).await?;
    store.change(org, &item, |budget| budget.reserve(&item.path, "c", 3)).await?;
    same!(store.use_of(org, &job).await?, Some(BudgetUse { credits: 4, used: 3, rest: 0 }), "the use of a group");
    let take_back = |part: BudgetPart| {
        let store = store.clone();
        async move {
            let take_back = |budget: &mut Budget| {
                budget.take_back(&part.path);
                Ok(())
            };
            store.change(org, &part, take_back).await
        }
    };
    take_back(job.clone()).await?;
    let used = Some(BudgetUse { credits: 8, used: 3, rest: 5 });
    same!(store.use_of(org, &second).await?, used, "the use of the next turn after its group returned");
    store.change(org, &first, |budget| budget.reserve("", "late", 1)).await?;
    same!(store.use_of(org, &second).await?, used, "a call of an earlier turn is paid from its own budget");

    let of_job = BudgetPart::whole(BudgetRoot::Job(JobId::derive(&["budget", org.as_str()])), 3);
    store.change(org, &of_job, |budget| budget.grant("1", Share::Equal { open: 3 })).await?;
    let parts = store.read(org, &of_job.root).await?.map(|budget| (budget.parts.len(), budget.rest()));
    same!(parts, Some((1, 2)), "the budget of a job with a part");
    for _ in 0..2 {
        store.remove(org, thread.as_str()).await?;
        for budget in [&first, &second] {
            same!(store.read(org, &budget.root).await?, None, "a budget of a deleted thread");
        }
    }
    same!(store.use_of(org, &job).await?, None, "the use of a part of a deleted thread");
    store
        .change(org, &second, |budget| {
            budget.settle("", "a", 1);
            Ok(())
        })
        .await?;
    take_back(job).await?;
    same!(store.read(org, &second.root).await?, None, "the budget of a deleted thread after a late settlement");
    Ok(())
}

/// The holder of an index is the node that was recorded last, and belongs to one organization.
async fn index_holders(context: &Context) -> Outcome {
    let (store, org) = (context.stores.index_holders(), &context.org);
    let holder =
        |address: &str, term, is_complete| Some(IndexHolder { address: address.to_owned(), term, is_complete });
    same!(store.holder(org).await?, None, "the holder of an index that no node has written");
    check!(!store.complete(org, "a:1", 1).await?, "an index without a holder is complete");
    for _ in 0..2 {
        store.claim(org, "a:1").await?;
        same!(store.holder(org).await?, holder("a:1", 1, false), "the holder after a claim");
    }
    same!(store.begin(org, "a:1").await?, 2, "the term of a rebuild");
    for _ in 0..2 {
        check!(store.complete(org, "a:1", 2).await?, "a rebuilt index is not complete");
        store.claim(org, "a:1").await?;
        same!(store.holder(org).await?, holder("a:1", 2, true), "the holder of a complete index after its claim");
    }
    store.claim(org, "b:1").await?;
    same!(store.holder(org).await?, holder("b:1", 3, false), "the holder after the claim of another node");
    check!(!store.complete(org, "a:1", 3).await?, "the index of a former holder is complete");
    same!(store.begin(org, "a:1").await?, 4, "the term of a rebuild by a former holder");
    store.claim(org, "b:1").await?;
    store.claim(org, "a:1").await?;
    check!(!store.complete(org, "a:1", 4).await?, "an index that another node replaced during its rebuild is complete");
    same!(store.holder(&context.other()).await?, None, "the holder of the index of another organization");
    Ok(())
}

/// Of the attempts that read the same record of a row, one is recorded. Records are removed with their document.
async fn row_fills(context: &Context) -> Outcome {
    let (store, org) = (context.stores.row_fills(), &context.org);
    let [stack, other] = ["a", "b"].map(|name| StackId::derive(&[name, org.as_str()]));
    let [document, kept] = ["first", "second"].map(|name| DocumentId::derive(&[name, org.as_str()]));
    let attempt = |job: &str, attempt| RowFill { job: JobId::derive(&[job, org.as_str()]), epoch: 1, attempt };
    let row = (&stack, &document);
    same!(store.last(org, &stack, &document).await?, None, "the attempt for a row that no job has filled");
    check!(store.record(org, row, None, &attempt("one", 1)).await?, "a first attempt was refused");
    check!(!store.record(org, row, None, &attempt("two", 1)).await?, "two first attempts were recorded");
    let first = store.last(org, &stack, &document).await?;
    same!(first.as_ref().map(|last| &last.fill), Some(&attempt("one", 1)), "the recorded attempt");
    check!(store.record(org, row, first.clone(), &attempt("one", 2)).await?, "a second attempt was refused");
    check!(!store.record(org, row, first, &attempt("two", 1)).await?, "an attempt replaced one that it had not read");
    for (stack, document) in [(&other, &document), (&stack, &kept)] {
        same!(store.last(org, stack, document).await?, None, "the attempt for another row");
        check!(store.record(org, (stack, document), None, &attempt("two", 1)).await?, "an attempt was refused");
    }
    same!(store.last(&context.other(), &stack, &document).await?, None, "the attempt of another organization");
    for _ in 0..2 {
        store.remove_document(org, &document).await?;
    }
    same!(store.last(org, &other, &document).await?, None, "an attempt for a removed document");
    check!(store.last(org, &stack, &kept).await?.is_some(), "the attempt for another document was removed");
    Ok(())
}

/// Cached vectors belong to one organization, and those of a document are removed with it.
async fn vectors(context: &Context) -> Outcome {
    let (cache, org) = (context.stores.vector_cache(), &context.org);
    let [first, second] = ["first", "second"].map(|name| DocumentId::derive(&[name, org.as_str()]));
    let keys: Vec<VectorKey> = ["a", "b", "c", "missing"].iter().map(|text| VectorKey::new("space", text)).collect();
    let [a, b, c, missing] = keys.as_slice() else { return Ok(()) };
    same!(cache.get(org, &keys).await?.len(), 0, "vectors of an empty cache");
    cache.put(org, Some(&first), &[(a.clone(), vec![0.6, 0.8]), (b.clone(), vec![1.0])]).await?;
    cache.put(org, Some(&second), &[(c.clone(), vec![-1.0])]).await?;
    cache.put(org, None, &[(b.clone(), vec![0.0, 1.0])]).await?;
    let found = cache.get(org, &keys).await?;
    let vectors = [a, b, c, missing].map(|key| found.get(key).map(Vec::as_slice));
    same!(vectors, [Some(&[0.6, 0.8][..]), Some(&[0.0, 1.0]), Some(&[-1.0]), None], "cached vectors");
    same!(cache.get(&context.other(), &keys).await?.len(), 0, "cached vectors of another organization");
    for _ in 0..2 {
        cache.remove_document(org, &first).await?;
        let left: Vec<VectorKey> = cache.get(org, &keys).await?.into_keys().collect();
        let mut expected = vec![b.clone(), c.clone()];
        expected.sort();
        same!(left, expected, "vectors of other documents and of queries after the removal of a document");
    }
    cache.remove_document(&context.other(), &second).await?;
    same!(cache.get(org, std::slice::from_ref(c)).await?.len(), 1, "a vector after a removal by another organization");
    cache.remove_document(org, &second).await?;
    same!(cache.get(org, std::slice::from_ref(c)).await?.len(), 0, "a vector of a removed document");
    Ok(())
}
