//! [`folio_storage::AccessStore`], and organizations.

use std::collections::BTreeSet;

use folio_resources::{Member, MemberWrite, Organization, OrganizationChange, OrganizationFilter};
use folio_types::access::Role;
use folio_types::op::{Decided, Expected, Write};
use folio_types::page::PageRequest;
use folio_types::token::{ListedToken, Token, TokenRecord};
use folio_types::{OrgId, Principal, UserId};

use super::context::{Context, done};
use super::{Failure, Outcome, check, refused, same};

pub(crate) async fn suite(context: &Context) -> Outcome {
    organizations(context).await?;
    members(context).await?;
    tokens(context).await
}

/// Organizations are resources of the platform: a tenant sees no other one, and the deletion index leads to each deleted one.
async fn organizations(context: &Context) -> Outcome {
    let (store, platform) = (context.stores.of::<Organization>(), OrgId::platform());
    let write = |org: &OrgId, expected, change| {
        let key = format!("{org}-{}", context.fresh()).parse()?;
        Ok::<_, Failure>(Write::by_platform(platform.clone(), key, context.now(), expected, change))
    };
    let name = format!("Of {}", context.org);
    let create = |name: &str| OrganizationChange::Create { name: name.to_owned() };
    let created = write(&context.org, Expected::Absent, create(&name))?;
    done(store.decide(&context.org, created.clone()).await?)?;
    done(store.decide(&context.org, created).await?)?;
    let again = write(&context.org, Expected::Absent, create("another"))?;
    same!(store.decide(&context.org, again).await?, Decided::Moved, "an organization that exists was created");
    let found = store.get(&platform, &context.org).await?.ok_or_else(|| Failure("it does not exist".to_owned()))?;
    same!((found.name.as_str(), found.version), (name.as_str(), 1), "a new organization");
    same!(store.get(&context.org, &context.org).await?, None, "an organization as its own tenant");
    let filter = OrganizationFilter { name_search: Some(name) };
    let listed = async || store.list(&platform, &filter, &PageRequest::default()).await;
    same!(listed().await?.items, vec![found], "the list of organizations");

    let delete = write(&context.org, Expected::Version(1), OrganizationChange::Delete)?;
    let at = delete.at;
    done(store.decide(&context.org, delete).await?)?;
    same!(listed().await?.items, Vec::new(), "the list without a deleted organization");
    let late = write(&context.org, Expected::Version(2), create("again"))?;
    refused!(store.decide(&context.org, late).await, NotFound, "a deleted organization was created again");
    let deleted = async || {
        let found = store.deleted(10_000).await?;
        Ok::<_, Failure>(found.into_iter().filter(|(_, id, _)| *id == context.org).collect::<Vec<_>>())
    };
    same!(deleted().await?, vec![(platform.clone(), context.org.clone(), at)], "the deletion");
    context.stores.erasure.erase(&BTreeSet::from([context.org.clone()])).await?;
    same!(deleted().await?.len(), 1, "the deletion of an erased organization");
    store.forget_deleted(&platform, &context.org).await?;
    same!(deleted().await?, Vec::new(), "the deletion of a forgotten organization");
    Ok(())
}

async fn members(context: &Context) -> Outcome {
    let store = &context.stores.access;
    same!(store.members(&context.org).await?, Vec::new(), "members before there are any");
    let user = UserId::derive(&["member", context.org.as_str()]);
    let member = Member {
        user: user.clone(),
        name: "max".to_owned(),
        role: Role::Member,
        created_at: context.now(),
        removed_at: None,
    };
    check!(store.write_member(&context.org, MemberWrite::unguarded(None, member.clone())).await?, "a new member");
    same!(store.member(&context.org, &user).await?, Some(member.clone()), "a member");
    same!(store.member(&context.other(), &user).await?, None, "a member of another organization");
    let again = MemberWrite::unguarded(None, Member { name: "moritz".to_owned(), ..member.clone() });
    check!(!store.write_member(&context.org, again).await?, "a new member in the place of another");
    let removed = Member { removed_at: Some(context.now()), role: Role::Viewer, ..member.clone() };
    let removal = MemberWrite::unguarded(Some(member.clone()), removed.clone());
    check!(store.write_member(&context.org, removal).await?, "the removal of a member");
    let renamed = Member { name: "moritz".to_owned(), ..member.clone() };
    let late = MemberWrite::unguarded(Some(member), renamed.clone());
    check!(!store.write_member(&context.org, late).await?, "a change of what a member was before its removal");
    same!(store.members(&context.org).await?, vec![removed], "members after one was removed");
    let missing_member = Member { user: UserId::derive(&["missing_member", context.org.as_str()]), ..renamed.clone() };
    let missing = MemberWrite::unguarded(Some(missing_member.clone()), missing_member);
    check!(!store.write_member(&context.org, missing).await?, "a change of a member who is not there");
    let elsewhere = MemberWrite::unguarded(Some(renamed.clone()), renamed);
    check!(!store.write_member(&context.other(), elsewhere).await?, "a change of another organization's member");
    same!(store.members(&context.other()).await?, Vec::new(), "members of another organization");
    guard(context).await
}

/// A change that is guarded by another member: two admins demote each other, one after the other and concurrently.
async fn guard(context: &Context) -> Outcome {
    let (store, org) = (&context.stores.access, context.org.as_str());
    let admin = |name: &str| Member {
        user: UserId::derive(&[name, org]),
        name: name.to_owned(),
        role: Role::Admin,
        created_at: context.now(),
        removed_at: None,
    };
    let lowers = |by: &Member, whom: &Member| MemberWrite {
        before: Some(whom.clone()),
        after: Member { role: Role::Viewer, ..whom.clone() },
        guard: Some(by.clone()),
    };
    let all @ [one, two, three, four] = &["one", "two", "three", "four"].map(admin);
    for admin in all {
        check!(store.write_member(&context.org, MemberWrite::unguarded(None, admin.clone())).await?, "a new admin");
    }
    check!(store.write_member(&context.org, lowers(one, two)).await?, "a write with a guard");
    check!(!store.write_member(&context.org, lowers(two, one)).await?, "a write whose guard is no admin now");
    same!(store.member(&context.org, &one.user).await?, Some(one.clone()), "the admin who stayed");
    let (first, second) = futures::try_join!(
        store.write_member(&context.org, lowers(three, four)),
        store.write_member(&context.org, lowers(four, three))
    )?;
    check!(!(first && second), "two admins lowered each other at once");
    let left = futures::try_join!(store.member(&context.org, &three.user), store.member(&context.org, &four.user))?;
    let left = [left.0, left.1].into_iter().flatten().filter(|member| member.role == Role::Admin).count();
    same!(left, 2 - usize::from(first) - usize::from(second), "admins who are left");
    Ok(())
}

async fn tokens(context: &Context) -> Outcome {
    let store = &context.stores.access;
    let digits = format!("{:x}", u128::from(context.fresh()) ^ 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let seed = folio_types::Digest::of(format!("{}{digits}", context.org).as_bytes());
    let id: String = seed.as_str().chars().take(24).collect();
    let shown: Token = format!("folio_{id}_{}", seed.as_str()).parse()?;
    let holder = Principal { org: context.org.clone(), user: context.user.clone(), role: Role::Admin };
    let record = TokenRecord::new(&shown, holder.clone(), "first", context.now());
    same!(store.token(&record.id).await?, None, "a token before it is made");
    store.create_token(record.clone()).await?;
    same!(store.token(&record.id).await?, Some(record.clone()), "a token read back");
    store.create_token(record.clone()).await?;
    let theirs = TokenRecord { org: context.other(), ..record.clone() };
    check!(store.create_token(theirs).await.is_err(), "a token of an id that is taken was stored");
    same!(store.token(&record.id).await?, Some(record.clone()), "a token after another one of its id was refused");
    let other: Token = format!("folio_{}_{}", id.chars().rev().collect::<String>(), seed.as_str()).parse()?;
    let second = TokenRecord::new(&other, holder, "second", context.now());
    store.create_token(second.clone()).await?;
    revocation(context, record, second).await
}

async fn revocation(context: &Context, first: TokenRecord, second: TokenRecord) -> Outcome {
    let store = &context.stores.access;
    let used = context.now();
    store.note_use(&context.org, &second.id, used).await?;
    let listed = vec![
        ListedToken { record: first.clone(), used_at: None },
        ListedToken { record: second.clone(), used_at: Some(used) },
    ];
    same!(store.tokens(&context.org).await?, listed, "tokens, oldest first, with their last use");
    same!(store.tokens(&context.other()).await?, Vec::new(), "tokens of another organization");
    same!(store.revoke_token(&context.other(), &first.id, used).await?, None, "revoked by another organization");
    same!(store.token(&first.id).await?, Some(first.clone()), "a token that another organization revoked");
    let at = context.now();
    let revoked = TokenRecord { revoked_at: Some(at), ..first.clone() };
    same!(store.revoke_token(&context.org, &first.id, at).await?, Some(revoked.clone()), "a token revoked");
    same!(store.revoke_token(&context.org, &first.id, context.now()).await?, Some(revoked.clone()), "revoked twice");
    same!(store.token(&first.id).await?, Some(revoked), "a revoked token read back");
    check!(store.create_token(first).await.is_err(), "a revoked token was made again");
    let left: Vec<_> = store.tokens(&context.org).await?.into_iter().map(|listed| listed.record).collect();
    same!(left, vec![second], "tokens after one was revoked");
    Ok(())
}
