//! OrganizationService.

use folio_proto::{fields, v1};
use folio_types::access::{Member, Organization};
use folio_types::page::Order;
use folio_types::token::{Token, TokenRecord};
use folio_types::{Code, Error, OrgId, Principal, Reason, Result, Role, UserId, limits};
use serde_json::json;
use tonic::{Request, Response, Status};
use v1::organization_service_server::OrganizationService;

use super::member::unchanged;
use super::{Api, answer, answer_caller};
use crate::audit::Made;
use crate::page::{Asked, By, Listing};
use folio_operations::Caller;

/// How often a change is tried again on what is there then.
const ATTEMPTS: u32 = 5;

#[tonic::async_trait]
impl OrganizationService for Api {
    async fn create_organization(
        &self,
        request: Request<v1::CreateOrganizationRequest>,
    ) -> Result<Response<v1::CreateOrganizationResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let op = api.op(&principal, "CreateOrganization", &request.request_id, &request)?;
            let (id, user) = (OrgId::derive(&op.parts()), UserId::derive(&op.parts()));
            // No names: this log stays when the organization is deleted.
            let arguments = json!({ "organization_id": id, "user_id": user });
            let asked = ("OrganizationService.CreateOrganization", request.request_id.as_str(), arguments);
            api.recorded(&principal, asked, api.new_organization(&id, &user, &request), |_| Made {
                founded: Some(id.clone()),
                ..Made::here("organization", &id)
            })
            .await
        })
        .await
    }

    async fn list_organizations(
        &self,
        request: Request<v1::ListOrganizationsRequest>,
    ) -> Result<Response<v1::ListOrganizationsResponse>, Status> {
        answer(request, async |_, request| self.organizations(&request).await).await
    }

    async fn get_organization(
        &self,
        request: Request<v1::GetOrganizationRequest>,
    ) -> Result<Response<v1::GetOrganizationResponse>, Status> {
        answer_caller(request, async |caller, request| {
            let organization = self.asked_organization(&caller, &request.organization_id).await?;
            Ok(v1::GetOrganizationResponse { organization: Some((&organization).into()) })
        })
        .await
    }

    async fn update_organization(
        &self,
        request: Request<v1::UpdateOrganizationRequest>,
    ) -> Result<Response<v1::UpdateOrganizationResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let arguments = json!({
                "name": request.name,
                "thread_retention_days": request.thread_retention_days,
                "expected_version": request.expected_version,
            });
            let asked = ("OrganizationService.UpdateOrganization", "", arguments);
            let made = |_: &v1::UpdateOrganizationResponse| Made::here("organization", &principal.org);
            api.recorded(&principal, asked, api.changed_organization(&principal, request), made).await
        })
        .await
    }

    async fn delete_organization(
        &self,
        request: Request<v1::DeleteOrganizationRequest>,
    ) -> Result<Response<v1::DeleteOrganizationResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let id: OrgId = fields::id("organization_id", &request.organization_id)?;
            let asked = ("OrganizationService.DeleteOrganization", "", json!({ "organization_id": id }));
            let deleted = api.deleted_organization(&principal, &id, &request.name);
            // Its own log goes with it.
            api.recorded(&principal, asked, deleted, |_| Made::here("organization", &id)).await
        })
        .await
    }

    async fn add_member(
        &self,
        request: Request<v1::AddMemberRequest>,
    ) -> Result<Response<v1::AddMemberResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let op = api.op(&principal, "AddMember", &request.request_id, &request)?;
            folio_types::fields::check_name("name", &request.name)?;
            let role = fields::choice::<v1::Role>("role", request.role)?.said();
            let role = role.ok_or_else(|| Error::invalid_field("role", "is missing"))?;
            let known = fields::optional_id::<UserId>("user_id", &request.user_id)?;
            let returns = known.is_some();
            let user = known.unwrap_or_else(|| UserId::derive(&op.parts()));
            let arguments = json!({ "user_id": user, "name": request.name, "role": role });
            let asked = ("OrganizationService.AddMember", request.request_id.as_str(), arguments);
            let add = async {
                let change = |there: Option<Member>| match there {
                    Some(there) if !returns => Ok(there),
                    Some(there) if there.removed_at.is_none() => unchanged(there, &request.name, role),
                    _ => Ok(api.new_member(&user, &request.name, role)),
                };
                if returns {
                    api.forget_tokens(&principal.org, &user).await?;
                }
                api.change_member(&principal.org, &user, change).await
            };
            let member = api.recorded(&principal, asked, add, |member| Made::here("member", &member.user)).await?;
            Ok(v1::AddMemberResponse { member: Some((&member).into()) })
        })
        .await
    }

    async fn list_members(
        &self,
        request: Request<v1::ListMembersRequest>,
    ) -> Result<Response<v1::ListMembersResponse>, Status> {
        answer(request, |principal, request| self.members(principal, request)).await
    }

    async fn update_member(
        &self,
        request: Request<v1::UpdateMemberRequest>,
    ) -> Result<Response<v1::UpdateMemberResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let user: UserId = fields::id("user_id", &request.user_id)?;
            let role = fields::choice::<v1::Role>("role", request.role)?.said();
            if let Some(name) = &request.name {
                folio_types::fields::check_name("name", name)?;
            }
            let arguments = json!({ "user_id": user, "name": request.name, "role": role });
            let asked = ("OrganizationService.UpdateMember", "", arguments);
            let lower = role.filter(|role| *role < Role::Admin);
            let change = |there: Option<Member>| {
                let there = there.filter(|there| there.removed_at.is_none());
                let there = there.ok_or_else(|| Error::not_found("member", &user))?;
                let name = request.name.clone().unwrap_or_else(|| there.name.clone());
                Ok(Member { name, role: role.unwrap_or(there.role), ..there })
            };
            let update = async {
                if lower.is_some() {
                    api.another_platform_admin(&principal.org, &user).await?;
                }
                api.change_member(&principal.org, &user, change).await
            };
            let member = api.recorded(&principal, asked, update, |_| Made::here("member", &user)).await?;
            Ok(v1::UpdateMemberResponse { member: Some((&member).into()) })
        })
        .await
    }

    async fn remove_member(
        &self,
        request: Request<v1::RemoveMemberRequest>,
    ) -> Result<Response<v1::RemoveMemberResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let user: UserId = fields::id("user_id", &request.user_id)?;
            let asked = ("OrganizationService.RemoveMember", "", json!({ "user_id": user }));
            let now = api.gateway.environment.now();
            let remove = async {
                let change = |there: Option<Member>| {
                    let there = there.ok_or_else(|| Error::not_found("member", &user))?;
                    Ok(Member { removed_at: there.removed_at.or(Some(now)), ..there })
                };
                api.another_platform_admin(&principal.org, &user).await?;
                api.change_member(&principal.org, &user, change).await?;
                api.revoke_tokens(&principal.org, |token| token.user == user).await
            };
            api.recorded(&principal, asked, remove, |_| Made::here("member", &user)).await?;
            Ok(v1::RemoveMemberResponse {})
        })
        .await
    }
}

impl Api {
    pub(super) async fn organization(&self, id: &OrgId) -> Result<Organization> {
        let found = self.gateway.stores.access.organization(id).await?;
        found.ok_or_else(|| Error::not_found("organization", id))
    }

    /// The organization that is asked for: the caller's own unless it is named. Another one is there for the platform's
    /// administrator only.
    pub(super) async fn asked_organization(&self, caller: &Caller, id: &str) -> Result<Organization> {
        let own = &caller.principal.org;
        let id = fields::optional_id("organization_id", id)?.unwrap_or_else(|| own.clone());
        if id != *own && !caller.is_platform_admin() {
            return Err(Error::not_found("organization", &id));
        }
        self.organization(&id).await
    }

    /// Organization, admin and token, in this order: whoever comes back after a crash finds what is there and makes the rest.
    async fn new_organization(
        &self,
        id: &OrgId,
        user: &UserId,
        request: &v1::CreateOrganizationRequest,
    ) -> Result<v1::CreateOrganizationResponse> {
        folio_types::fields::check_name("name", &request.name)?;
        folio_types::fields::check_name("admin_name", &request.admin_name)?;
        let (access, environment) = (&self.gateway.stores.access, self.gateway.environment.as_ref());
        let now = environment.now();
        let organization = access.create_organization(Organization::new(id.clone(), &request.name, now)).await?;
        let admin = self.change_member(id, user, |there| {
            Ok(there.unwrap_or_else(|| self.new_member(user, &request.admin_name, Role::Admin)))
        });
        let admin = admin.await?;
        let token = Token::generate_as(id.as_str(), environment);
        let holder = Principal { org: id.clone(), user: user.clone(), role: Role::Admin };
        let made = access.create_token(TokenRecord::new(&token, holder, "first token", now)).await;
        let admin_token = match made {
            Ok(()) => token.reveal(),
            Err(error) if error.reason == Reason::NameTaken => String::new(),
            Err(error) => return Err(error),
        };
        let (organization, admin) = (Some((&organization).into()), Some((&admin).into()));
        Ok(v1::CreateOrganizationResponse { organization, admin, admin_token })
    }

    async fn organizations(&self, request: &v1::ListOrganizationsRequest) -> Result<v1::ListOrganizationsResponse> {
        let asked = Asked { size: request.page_size, token: &request.page_token, skip: 0, order_by: "" };
        let listing = Listing::read(asked, &["organizations"], By::Created, Order::Oldest, limits::PAGE_SIZE_MAX)?;
        let after: Option<OrgId> = listing.page.token.as_deref().map(str::parse).transpose()?;
        let size = usize::try_from(listing.page.size).unwrap_or(usize::MAX);
        let found = self.gateway.stores.access.organizations(after.as_ref(), size).await?;
        let next = found.last().filter(|_| found.len() == size).map(|last| last.id.to_string());
        Ok(v1::ListOrganizationsResponse {
            organizations: found.iter().map(Into::into).collect(),
            next_page_token: listing.next(next),
        })
    }

    async fn changed_organization(
        &self,
        principal: &Principal,
        request: v1::UpdateOrganizationRequest,
    ) -> Result<v1::UpdateOrganizationResponse> {
        if let Some(name) = &request.name {
            folio_types::fields::check_name("name", name)?;
        }
        if request.thread_retention_days.is_some_and(|days| days > limits::THREAD_RETENTION_DAYS_MAX) {
            let problem = format!("is more than {}", limits::THREAD_RETENTION_DAYS_MAX);
            return Err(Error::invalid_field("thread_retention_days", problem));
        }
        let change = |there: Organization| Organization {
            name: request.name.clone().unwrap_or(there.name),
            thread_retention_days: match request.thread_retention_days {
                Some(days) => Some(days).filter(|days| *days > 0),
                None => there.thread_retention_days,
            },
            ..there
        };
        let there = self.change_organization(&principal.org, request.expected_version, change).await?;
        Ok(v1::UpdateOrganizationResponse { organization: Some((&there).into()) })
    }

    /// The tombstone, then the tokens: whoever comes back after a crash revokes what is left of them. The rest is the sweep's.
    async fn deleted_organization(
        &self,
        principal: &Principal,
        id: &OrgId,
        name: &str,
    ) -> Result<v1::DeleteOrganizationResponse> {
        let stores = &self.gateway.stores;
        if let Some(there) = stores.access.organization(id).await? {
            if there.name != name {
                return Err(Error::invalid_field("name", "is not the name of the organization"));
            }
            let first = stores.access.first_organization().await?;
            if *id == principal.org || first.is_some_and(|first| first.id == *id) {
                let message = "neither the caller's own organization nor the installation's first one is deleted";
                return Err(Error::precondition(Reason::InUse, message));
            }
        }
        if !stores.erasure.delete(id, self.gateway.environment.now()).await? {
            return Err(Error::not_found("organization", id));
        }
        self.gateway.clean_up.sweep_soon();
        self.revoke_tokens(id, |_| true).await?;
        Ok(v1::DeleteOrganizationResponse {})
    }

    /// Changes an organization as it is found, under the version that was read. `expected` is the one that the request is about,
    /// 0: whatever it is. Gives it as it is then.
    pub(super) async fn change_organization(
        &self,
        org: &OrgId,
        expected: u64,
        change: impl Fn(Organization) -> Organization,
    ) -> Result<Organization> {
        let moved = || {
            let message = "the organization was changed meanwhile; read it again";
            Error::new(Code::Aborted, Reason::VersionConflict, message)
        };
        for _ in 0..ATTEMPTS {
            let there = self.organization(org).await?;
            if expected > 0 && expected != there.version {
                return Err(moved());
            }
            let version = there.version.saturating_add(1);
            let new = Organization { version, ..change(there) };
            if self.gateway.stores.access.change_organization(new.clone()).await? {
                return Ok(new);
            }
        }
        Err(moved())
    }
}
