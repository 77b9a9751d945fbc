//! Operations on the members of an organization. They belong to `OrganizationService`.

use std::cmp::Reverse;

use folio_storage::MemberChange;
use folio_types::access::Member;
use folio_types::page::Order;
use folio_types::{Code, Error, OrgId, Reason, Result, Role, UserId, limits};
use serde::Serialize;
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::Declaration;
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, outcome_as_json};
use crate::organizations::SERVICE;
use crate::tokens::{keep_a_platform_token, revoke_tokens};

/// Maximum number of attempts of a change that meets conflicts.
const ATTEMPTS: u32 = 5;

/// Adds a member.
#[derive(Debug, Clone, Serialize)]
pub struct AddMember {
    /// The id of a user who exists elsewhere. None: a new id.
    pub user_id: Option<UserId>,
    /// The display name: 1 to 200 characters without surrounding blanks.
    pub name: String,
    /// The maximum role of the member's tokens.
    pub role: Role,
}

impl AddMember {
    fn user(&self, context: &Context) -> UserId {
        self.user_id.clone().unwrap_or_else(|| UserId::derive(&context.request.id_parts()))
    }
}

impl Operation for AddMember {
    const DECLARATION: Declaration = SERVICE.administer("AddMember");
    type Output = Member;
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<Member>> {
        folio_types::fields::check_name("member.name", &self.name)?;
        let user = self.user(context);
        let record = AuditRecord::new(json!({ "user_id": user, "name": self.name, "role": self.role }));
        Ok(record.target("member", user))
    }

    async fn run(self, context: &Context) -> Result<Member> {
        let (org, user) = (&context.principal().org, self.user(context));
        if self.user_id.is_some() {
            revoke_tokens_of_removed(context, org, &user).await?;
        }
        change_member(context, org, &user, |stored| match stored {
            Some(stored) if self.user_id.is_none() => Ok(stored),
            Some(stored) if stored.removed_at.is_none() => unchanged(stored, &self.name, self.role),
            _ => Ok(new_member(context, &user, &self.name, self.role)),
        })
        .await
    }
}

/// Lists the members. Filter: `name:` a part of the name.
#[derive(Debug, Clone, Serialize)]
pub struct ListMembers {
    /// The page.
    pub list: ListRequest,
}

impl Operation for ListMembers {
    const DECLARATION: Declaration = SERVICE.read("ListMembers");
    type Output = ListPage<Member>;

    async fn run(self, context: &Context) -> Result<ListPage<Member>> {
        let mut name = None;
        for condition in filter::parse(&self.list.filter)? {
            match condition.field.as_str() {
                "name" => filter::once(&mut name, &condition, condition.search()?.to_lowercase())?,
                _ => return Err(filter::unknown(&condition, "name")),
            }
        }
        let org = &context.principal().org;
        let (scope, keys) = (["members", org.as_str()], SortKeys::CreateTimeAndName);
        let listing = Listing::new(&self.list, &scope, keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let mut members = context.stores().access.members(org).await?;
        members.retain(|member| {
            member.removed_at.is_none() && name.as_ref().is_none_or(|part| member.name.to_lowercase().contains(part))
        });
        match listing.page.order {
            Order::Oldest => members.sort_by_key(|member| member.created_at),
            Order::Newest => members.sort_by_key(|member| Reverse(member.created_at)),
            Order::Name => members.sort_by_key(|member| member.name.to_lowercase()),
            Order::NameDescending => members.sort_by_key(|member| Reverse(member.name.to_lowercase())),
        }
        listing.slice(members)
    }
}

/// Updates a member. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateMember {
    /// The member.
    pub user_id: UserId,
    /// The new display name: 1 to 200 characters without surrounding blanks.
    pub name: Option<String>,
    /// The new role.
    pub role: Option<Role>,
}

impl Operation for UpdateMember {
    const DECLARATION: Declaration = SERVICE.administer("UpdateMember");
    type Output = Member;
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<Member>> {
        if let Some(name) = &self.name {
            folio_types::fields::check_name("member.name", name)?;
        }
        AuditRecord::of_input(serde_json::to_value(self)).map(|record| record.target("member", &self.user_id))
    }

    async fn run(self, context: &Context) -> Result<Member> {
        let (org, user) = (&context.principal().org, &self.user_id);
        if self.role.is_some_and(|role| role < Role::Admin) {
            keep_a_platform_token(context, org, user).await?;
        }
        change_member(context, org, user, |stored| {
            let stored = stored.filter(|stored| stored.removed_at.is_none());
            let stored = stored.ok_or_else(|| Error::not_found("member", user))?;
            let name = self.name.clone().unwrap_or_else(|| stored.name.clone());
            Ok(Member { name, role: self.role.unwrap_or(stored.role), ..stored })
        })
        .await
    }
}

/// Removes a member and revokes the member's tokens.
#[derive(Debug, Clone, Serialize)]
pub struct RemoveMember {
    /// The member.
    pub user_id: UserId,
}

impl Operation for RemoveMember {
    const DECLARATION: Declaration = SERVICE.administer("RemoveMember");
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        AuditRecord::of_input(serde_json::to_value(self)).map(|record| record.target("member", &self.user_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        let (org, user) = (&context.principal().org, &self.user_id);
        let now = context.environment().now();
        keep_a_platform_token(context, org, user).await?;
        change_member(context, org, user, |stored| {
            let stored = stored.ok_or_else(|| Error::not_found("member", user))?;
            Ok(Member { removed_at: stored.removed_at.or(Some(now)), ..stored })
        })
        .await?;
        revoke_tokens(context, org, |token| token.user == *user).await
    }
}

fn is_admin(member: &Member) -> bool {
    member.role == Role::Admin && member.removed_at.is_none()
}

/// Returns a member who is added again with the same name and role. Error: `NAME_TAKEN` with another name or role.
fn unchanged(stored: Member, name: &str, role: Role) -> Result<Member> {
    if (stored.name.as_str(), stored.role) == (name, role) {
        return Ok(stored);
    }
    let message = "the user is a member with another name or role; use UpdateMember";
    Err(Error::new(Code::AlreadyExists, Reason::NameTaken, message))
}

pub(crate) fn new_member(context: &Context, user: &UserId, name: &str, role: Role) -> Member {
    let created_at = context.environment().now();
    Member { user: user.clone(), name: name.to_owned(), role, created_at, removed_at: None }
}

/// Creates or changes a member under the row that was read, and returns it. One admin always remains.
pub(crate) async fn change_member(
    context: &Context,
    org: &OrgId,
    user: &UserId,
    change: impl Fn(Option<Member>) -> Result<Member> + Send,
) -> Result<Member> {
    let access = &context.stores().access;
    for _ in 0..ATTEMPTS {
        let old = access.member(org, user).await?;
        let new = change(old.clone())?;
        if old.as_ref() == Some(&new) {
            return Ok(new);
        }
        let leaves = old.as_ref().is_some_and(is_admin) && !is_admin(&new);
        let beside = if leaves { Some(other_admin(context, org, user).await?) } else { None };
        if access.change_member(org, MemberChange { old, new: new.clone(), beside }).await? {
            return Ok(new);
        }
    }
    let message = "the members were changed meanwhile; read them again";
    Err(Error::new(Code::Aborted, Reason::VersionConflict, message))
}

/// Revokes tokens of a removed member that were created during the removal, or that a failed removal left, so that they
/// do not become valid when the member is added again.
async fn revoke_tokens_of_removed(context: &Context, org: &OrgId, user: &UserId) -> Result<()> {
    let member = context.stores().access.member(org, user).await?;
    if member.is_some_and(|member| member.removed_at.is_some()) {
        revoke_tokens(context, org, |token| token.user == *user).await?;
    }
    Ok(())
}

/// Returns an admin who remains when `leaving` is no longer one.
async fn other_admin(context: &Context, org: &OrgId, leaving: &UserId) -> Result<Member> {
    let members = context.stores().access.members(org).await?;
    let other = members.into_iter().find(|member| is_admin(member) && member.user != *leaving);
    let message = "an organization keeps at least one admin; make another member an admin first";
    other.ok_or_else(|| Error::precondition(Reason::InUse, message))
}
