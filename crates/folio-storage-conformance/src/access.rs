//! [`folio_storage::AccessStore`].

use folio_types::access::{Member, Organization, Role};
use folio_types::token::{ListedToken, Token, TokenRecord};
use folio_types::{Principal, UserId};

use super::context::Context;
use super::{Failure, Outcome, check, refused, same};
use folio_storage::MemberChange;

pub(crate) async fn suite(context: &Context) -> Outcome {
    organizations(context).await?;
    members(context).await?;
    tokens(context).await
}

async fn organizations(context: &Context) -> Outcome {
    let store = &context.stores.access;
    let organization = Organization::new(context.org.clone(), "one", context.now());
    same!(store.organization(&context.org).await?, None, "an organization before it is made");
    same!(store.create_organization(organization.clone()).await?, organization, "a new organization");
    let again = Organization { name: "two".to_owned(), ..organization.clone() };
    same!(store.create_organization(again).await?, organization, "an organization made again");
    same!(store.organization(&context.org).await?, Some(organization), "an organization read back");
    let first = store.first_organization().await?;
    check!(first.is_some(), "there is an organization, and yet no first one");
    let other = Organization::new(context.other(), "other", context.now());
    store.create_organization(other).await?;
    same!(store.first_organization().await?, first, "the first organization after a second was made");
    let there = store.organization(&context.org).await?.ok_or_else(|| Failure("it is gone".to_owned()))?;
    let renamed = Organization { name: "three".to_owned(), version: there.version + 1, ..there.clone() };
    check!(store.change_organization(renamed.clone()).await?, "a change on the version that is there");
    let late = Organization { name: "late".to_owned(), ..renamed.clone() };
    check!(!store.change_organization(late).await?, "a change on a version that was");
    same!(store.organization(&context.org).await?, Some(renamed), "an organization after it was changed");
    let missing = Organization { id: folio_types::OrgId::derive(&["no", context.org.as_str()]), version: 1, ..there };
    check!(!store.change_organization(missing).await?, "a change of an organization that is not there");
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = store.organizations(after.as_ref(), 2).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        listed.extend(page.into_iter().map(|organization| organization.id));
    }
    check!(
        listed.is_sorted() && listed.windows(2).all(|two| two.first() != two.last()),
        "organizations in order, once each"
    );
    check!(
        [context.org.clone(), context.other()].iter().all(|org| listed.contains(org)),
        "an organization is not listed"
    );
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
    check!(store.change_member(&context.org, MemberChange::added(member.clone())).await?, "a new member");
    same!(store.member(&context.org, &user).await?, Some(member.clone()), "a member");
    same!(store.member(&context.other(), &user).await?, None, "a member of another organization");
    let again = MemberChange::added(Member { name: "moritz".to_owned(), ..member.clone() });
    check!(!store.change_member(&context.org, again).await?, "a new member in the place of another");
    let gone = Member { removed_at: Some(context.now()), role: Role::Viewer, ..member.clone() };
    let removal = MemberChange { old: Some(member.clone()), new: gone.clone(), beside: None };
    check!(store.change_member(&context.org, removal).await?, "the removal of a member");
    let renamed = Member { name: "moritz".to_owned(), ..member.clone() };
    let late = MemberChange { old: Some(member), new: renamed.clone(), beside: None };
    check!(!store.change_member(&context.org, late).await?, "a change of what a member was before its removal");
    same!(store.members(&context.org).await?, vec![gone], "members after one was removed");
    let nobody = Member { user: UserId::derive(&["nobody", context.org.as_str()]), ..renamed.clone() };
    let missing = MemberChange { old: Some(nobody.clone()), new: nobody, beside: None };
    check!(!store.change_member(&context.org, missing).await?, "a change of a member who is not there");
    let elsewhere = MemberChange { old: Some(renamed.clone()), new: renamed, beside: None };
    check!(!store.change_member(&context.other(), elsewhere).await?, "a change of another organization's member");
    same!(store.members(&context.other()).await?, Vec::new(), "members of another organization");
    beside(context).await
}

/// A change that rests on another member. Two admins who lower each other, one after the other and at once.
async fn beside(context: &Context) -> Outcome {
    let (store, org) = (&context.stores.access, context.org.as_str());
    let admin = |name: &str| Member {
        user: UserId::derive(&[name, org]),
        name: name.to_owned(),
        role: Role::Admin,
        created_at: context.now(),
        removed_at: None,
    };
    let lowers = |by: &Member, whom: &Member| MemberChange {
        old: Some(whom.clone()),
        new: Member { role: Role::Viewer, ..whom.clone() },
        beside: Some(by.clone()),
    };
    let all @ [one, two, three, four] = &["one", "two", "three", "four"].map(admin);
    for admin in all {
        check!(store.change_member(&context.org, MemberChange::added(admin.clone())).await?, "a new admin");
    }
    check!(store.change_member(&context.org, lowers(one, two)).await?, "a change beside an admin who stays");
    check!(!store.change_member(&context.org, lowers(two, one)).await?, "a change beside an admin who is none by now");
    same!(store.member(&context.org, &one.user).await?, Some(one.clone()), "the admin who stayed");
    let (first, second) = futures::try_join!(
        store.change_member(&context.org, lowers(three, four)),
        store.change_member(&context.org, lowers(four, three))
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
    let nobody = folio_types::OrgId::derive(&["nobody", context.org.as_str()]);
    let other: Token = format!("folio_{}_{}", id.chars().rev().collect::<String>(), seed.as_str()).parse()?;
    let orphan = TokenRecord { id: other.id().clone(), org: nobody, ..record.clone() };
    refused!(store.create_token(orphan).await, NotFound, "a token of an organization that is not there");
    same!(store.token(other.id()).await?, None, "a token that was refused");
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
