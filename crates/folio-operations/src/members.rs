//! Operations on the members of an organization. They belong to `OrganizationService`.

use std::cmp::Reverse;

use folio_resources::{Member, MemberChange, MemberWrite, User};
use folio_types::page::Order;
use folio_types::{Error, OrgId, Result, Role, UserId, limits};
use serde::Serialize;
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::Declaration;
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, outcome_as_json};
use crate::organizations::SERVICE;
use crate::tokens::{check_other_platform_token, revoke_tokens};

/// Maximum number of attempts of a change if other requests change the members concurrently.
const ATTEMPTS: u32 = 5;

#[derive(Debug, Clone, Serialize)]
pub struct AddMember {
    /// The id of a user who exists elsewhere. None: a new id.
    pub user_id: Option<UserId>,
    pub name: String,
    /// The maximum role of the member's tokens.
    pub role: Role,
}

impl AddMember {
    fn user(&self, context: &Context) -> UserId {
        self.user_id.clone().unwrap_or_else(|| UserId::derive(&context.request.id_parts()))
    }

    fn change(&self) -> MemberChange {
        MemberChange::Add { name: self.name.clone(), role: self.role }
    }
}

impl Operation for AddMember {
    const DECLARATION: Declaration = SERVICE.administer("AddMember");
    type Output = Member;
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<Member>> {
        self.change().check()?;
        let user = self.user(context);
        let record = AuditRecord::new(json!({ "user_id": user, "name": self.name, "role": self.role }));
        Ok(record.target("member", user))
    }

    async fn run(self, context: &Context) -> Result<Member> {
        let (org, user) = (&context.principal().org, self.user(context));
        if self.user_id.is_some() {
            revoke_tokens_of_removed(context, org, &user).await?;
            add_to_account(context, org, &user).await?;
        } else if let Some(stored) = context.stores().access().member(org, &user).await? {
            // The id is derived from the request: its first attempt stored the member.
            return Ok(stored);
        }
        change_member(context, org, &user, &self.change()).await
    }
}

/// Lists the members. Filter: `name:` a part of the name.
#[derive(Debug, Clone, Serialize)]
pub struct ListMembers {
    pub list: ListRequest,
}

impl Operation for ListMembers {
    const DECLARATION: Declaration = SERVICE.read("ListMembers");
    type Output = ListPage<Member>;

    async fn run(self, context: &Context) -> Result<ListPage<Member>> {
        let name = filter::name_search(&self.list.filter)?.map(|part| part.to_lowercase());
        let org = &context.principal().org;
        let (scope, keys) = (["members", org.as_str()], SortKeys::CreateTimeAndName);
        let listing = Listing::new(&self.list, &scope, keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let mut members = context.stores().access().members(org).await?;
        members.retain(|member| member.removed_at.is_none() && filter::contains(&member.name, name.as_ref()));
        match listing.page.order {
            Order::Oldest => members.sort_by_key(|member| member.created_at),
            Order::Newest => members.sort_by_key(|member| Reverse(member.created_at)),
            Order::Name | Order::NameDescending => listing.sort_by_name(&mut members, |member| &member.name),
        }
        listing.slice(members)
    }
}

/// Updates a member. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateMember {
    pub user_id: UserId,
    pub name: Option<String>,
    pub role: Option<Role>,
}

impl UpdateMember {
    fn change(&self) -> MemberChange {
        MemberChange::Update { name: self.name.clone(), role: self.role }
    }
}

impl Operation for UpdateMember {
    const DECLARATION: Declaration = SERVICE.administer("UpdateMember");
    type Output = Member;
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<Member>> {
        self.change().check()?;
        AuditRecord::of_input(self).map(|record| record.target("member", &self.user_id))
    }

    async fn run(self, context: &Context) -> Result<Member> {
        let (org, user) = (&context.principal().org, &self.user_id);
        if self.role.is_some_and(|role| role < Role::Admin) {
            check_other_platform_token(context, org, user).await?;
        }
        change_member(context, org, user, &self.change()).await
    }
}

/// Removes a member and revokes the member's tokens.
#[derive(Debug, Clone, Serialize)]
pub struct RemoveMember {
    pub user_id: UserId,
}

impl Operation for RemoveMember {
    const DECLARATION: Declaration = SERVICE.administer("RemoveMember");
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        AuditRecord::of_input(self).map(|record| record.target("member", &self.user_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        let (org, user) = (&context.principal().org, &self.user_id);
        check_other_platform_token(context, org, user).await?;
        change_member(context, org, user, &MemberChange::Remove).await?;
        revoke_tokens(context, org, Some(user.clone())).await
    }
}

/// Adds an organization to those of a user that signs in, before the user becomes a member.
pub(crate) async fn add_to_account(context: &Context, org: &OrgId, user: &UserId) -> Result<()> {
    match context.stores().of::<User>().get(&OrgId::platform(), user).await? {
        Some(_) => context.stores().accounts().add_organization(user, org).await,
        None => Ok(()),
    }
}

/// Checks that the organization of a user can do without the user.
///
/// # Errors
/// `IN_USE` for the last admin, and for the user with the only tokens of the platform's administrator.
pub(crate) async fn check_removable(context: &Context, org: &OrgId, user: &UserId) -> Result<()> {
    let access = context.stores().access();
    let Some(member) = access.member(org, user).await? else { return Ok(()) };
    let after = Member::after(user, &MemberChange::Remove, Some(&member), context.request.received_at())?;
    let write = MemberWrite::unguarded(Some(member), after);
    if write.needs_guard() {
        write.guarded_by(access.members(org).await?)?;
    }
    check_other_platform_token(context, org, user).await
}

/// Removes a deleted user from an organization, with its display name and its tokens. Idempotent.
pub(crate) async fn erase_member(context: &Context, org: &OrgId, user: &UserId) -> Result<()> {
    if context.stores().access().member(org, user).await?.is_some() {
        change_member(context, org, user, &MemberChange::Erase).await?;
    }
    revoke_tokens(context, org, Some(user.clone())).await
}

/// Changes a member and returns it. Recomputes the change if a member that it depends on was changed concurrently.
pub(crate) async fn change_member(
    context: &Context,
    org: &OrgId,
    user: &UserId,
    change: &MemberChange,
) -> Result<Member> {
    let (access, at) = (context.stores().access(), context.request.received_at());
    for _ in 0..ATTEMPTS {
        let before = access.member(org, user).await?;
        let after = Member::after(user, change, before.as_ref(), at)?;
        if before.as_ref() == Some(&after) {
            return Ok(after);
        }
        let mut write = MemberWrite::unguarded(before, after.clone());
        if write.needs_guard() {
            write = write.guarded_by(access.members(org).await?)?;
        }
        if access.write_member(org, write).await? {
            return Ok(after);
        }
    }
    let message = "the members were changed concurrently; read them again and retry";
    Err(Error::version_conflict(message))
}

/// Revokes the tokens of a removed member that were created during the removal, or that a failed removal left, so that
/// they do not become valid when the member is added again.
async fn revoke_tokens_of_removed(context: &Context, org: &OrgId, user: &UserId) -> Result<()> {
    let member = context.stores().access().member(org, user).await?;
    if member.is_some_and(|member| member.removed_at.is_some()) {
        revoke_tokens(context, org, Some(user.clone())).await?;
    }
    Ok(())
}
