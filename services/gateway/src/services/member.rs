//! Members of an organization: how they are changed and listed.

use std::cmp::Reverse;

use folio_proto::v1;
use folio_storage::MemberChange;
use folio_types::access::Member;
use folio_types::page::Order;
use folio_types::{Code, Error, OrgId, Principal, Reason, Result, Role, UserId, limits};

use super::{Api, asked, listing};
use crate::filter;
use crate::page::{By, total};

/// How often a change is tried again on what is there then.
const ATTEMPTS: u32 = 5;

fn is_admin(member: &Member) -> bool {
    member.role == Role::Admin && member.removed_at.is_none()
}

/// Who is a member and is added again. Error: `NAME_TAKEN` where that would be another one.
pub(super) fn unchanged(there: Member, name: &str, role: Role) -> Result<Member> {
    if (there.name.as_str(), there.role) == (name, role) {
        return Ok(there);
    }
    let message = "the user is a member with another name or role; `UpdateMember` changes it";
    Err(Error::new(Code::AlreadyExists, Reason::NameTaken, message))
}

impl Api {
    pub(super) fn new_member(&self, user: &UserId, name: &str, role: Role) -> Member {
        let created_at = self.gateway.environment.now();
        Member { user: user.clone(), name: name.to_owned(), role, created_at, removed_at: None }
    }

    /// Makes or changes a member as it is found: what others change meanwhile is not undone, and one admin stays. Gives it as it
    /// is then.
    pub(super) async fn change_member(
        &self,
        org: &OrgId,
        user: &UserId,
        change: impl Fn(Option<Member>) -> Result<Member>,
    ) -> Result<Member> {
        let access = &self.gateway.stores.access;
        for _ in 0..ATTEMPTS {
            let old = access.member(org, user).await?;
            let new = change(old.clone())?;
            if old.as_ref() == Some(&new) {
                return Ok(new);
            }
            let goes = old.as_ref().is_some_and(is_admin) && !is_admin(&new);
            let beside = if goes { Some(self.another_admin(org, user).await?) } else { None };
            if access.change_member(org, MemberChange { old, new: new.clone(), beside }).await? {
                return Ok(new);
            }
        }
        let message = "the members were changed meanwhile; read them again";
        Err(Error::new(Code::Aborted, Reason::VersionConflict, message))
    }

    /// Revokes what is left of the tokens of who was removed, so that none comes back with its user: one that was made in the very
    /// moment of the removal, or before a store failed.
    pub(super) async fn forget_tokens(&self, org: &OrgId, user: &UserId) -> Result<()> {
        let member = self.gateway.stores.access.member(org, user).await?;
        if member.is_some_and(|member| member.removed_at.is_some()) {
            self.revoke_tokens(org, |token| token.user == *user).await?;
        }
        Ok(())
    }

    /// An admin who stays where this one goes.
    async fn another_admin(&self, org: &OrgId, leaving: &UserId) -> Result<Member> {
        let members = self.gateway.stores.access.members(org).await?;
        let another = members.into_iter().find(|member| is_admin(member) && member.user != *leaving);
        let message = "an organization keeps one admin at least; make another one first";
        another.ok_or_else(|| Error::precondition(Reason::InUse, message))
    }

    pub(super) async fn members(
        &self,
        principal: Principal,
        request: v1::ListMembersRequest,
    ) -> Result<v1::ListMembersResponse> {
        let mut name = None;
        for term in filter::parse(&request.filter)? {
            match term.field.as_str() {
                "name" => filter::once(&mut name, &term, term.search()?.to_lowercase())?,
                _ => return Err(filter::unknown(&term, "name")),
            }
        }
        let by = By::Name("name");
        let listing = listing(&principal, "members", &request.filter, asked!(request), by, limits::PAGE_SIZE_MAX)?;
        let mut members = self.gateway.stores.access.members(&principal.org).await?;
        members.retain(|member| {
            member.removed_at.is_none() && name.as_ref().is_none_or(|part| member.name.to_lowercase().contains(part))
        });
        match listing.page.order {
            Order::Oldest => members.sort_by_key(|member| member.created_at),
            Order::Newest => members.sort_by_key(|member| Reverse(member.created_at)),
            Order::Name => members.sort_by_key(|member| member.name.to_lowercase()),
            Order::NameDescending => members.sort_by_key(|member| Reverse(member.name.to_lowercase())),
        }
        let page = listing.slice(members)?;
        Ok(v1::ListMembersResponse {
            members: page.items.iter().map(Into::into).collect(),
            next_page_token: listing.next(page.next),
            total_size: total(page.total),
        })
    }
}
