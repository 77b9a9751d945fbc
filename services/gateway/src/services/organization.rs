//! OrganizationService.

use folio_operations::members::{AddMember, ListMembers, RemoveMember, UpdateMember};
use folio_operations::organizations::{
    CreateOrganization, CreatedOrganization, DeleteOrganization, GetOrganization, ListOrganizations, UpdateOrganization,
};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, v1};
use folio_resources::{Member, Organization};
use folio_types::Role;
use tonic::Request;
use v1::organization_service_server::OrganizationService;

use super::{Api, Reply, list_request, total_size};

#[tonic::async_trait]
impl OrganizationService for Api {
    async fn create_organization(
        &self,
        request: Request<v1::CreateOrganizationRequest>,
    ) -> Reply<v1::CreateOrganizationResponse> {
        let call = |request: v1::CreateOrganizationRequest| {
            let name = fields::required("organization", request.organization)?.name;
            let operation = CreateOrganization { name, admin_name: request.admin_name };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |created: CreatedOrganization| v1::CreateOrganizationResponse {
            organization: Some((&created.organization).into()),
            admin: Some((&created.admin).into()),
            admin_token: created.admin_token.unwrap_or_default().reveal().to_owned(),
        };
        self.call(request, call, response).await
    }

    async fn list_organizations(
        &self,
        request: Request<v1::ListOrganizationsRequest>,
    ) -> Reply<v1::ListOrganizationsResponse> {
        let call =
            |request: v1::ListOrganizationsRequest| Ok(Call::new(ListOrganizations { list: list_request!(request) }));
        let response = |page: ListPage<Organization>| v1::ListOrganizationsResponse {
            organizations: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn get_organization(
        &self,
        request: Request<v1::GetOrganizationRequest>,
    ) -> Reply<v1::GetOrganizationResponse> {
        let call = |request: v1::GetOrganizationRequest| {
            let organization_id = fields::optional_id("organization_id", &request.organization_id)?;
            Ok(Call::new(GetOrganization { organization_id }))
        };
        let response = |found: Organization| v1::GetOrganizationResponse { organization: Some((&found).into()) };
        self.call(request, call, response).await
    }

    async fn update_organization(
        &self,
        request: Request<v1::UpdateOrganizationRequest>,
    ) -> Reply<v1::UpdateOrganizationResponse> {
        let call = |request: v1::UpdateOrganizationRequest| {
            let organization = fields::required("organization", request.organization)?;
            let set = [
                ("name", !organization.name.is_empty()),
                ("thread_retention_days", organization.thread_retention_days != 0),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            let operation = UpdateOrganization {
                name: mask.take("name", organization.name),
                thread_retention_days: mask.take("thread_retention_days", organization.thread_retention_days),
                etag: fields::etag("organization.etag", &organization.etag)?,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |updated: Organization| v1::UpdateOrganizationResponse { organization: Some((&updated).into()) };
        self.call(request, call, response).await
    }

    async fn delete_organization(
        &self,
        request: Request<v1::DeleteOrganizationRequest>,
    ) -> Reply<v1::DeleteOrganizationResponse> {
        let call = |request: v1::DeleteOrganizationRequest| {
            let organization_id = fields::id("organization_id", &request.organization_id)?;
            let operation = DeleteOrganization { organization_id, name: request.name };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |()| v1::DeleteOrganizationResponse {}).await
    }

    async fn add_member(&self, request: Request<v1::AddMemberRequest>) -> Reply<v1::AddMemberResponse> {
        let call = |request: v1::AddMemberRequest| {
            let member = fields::required("member", request.member)?;
            let operation = AddMember {
                user_id: fields::optional_id("member.user_id", &member.user_id)?,
                name: member.name,
                role: fields::required("member.role", role(member.role)?)?,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |member: Member| v1::AddMemberResponse { member: Some((&member).into()) };
        self.call(request, call, response).await
    }

    async fn list_members(&self, request: Request<v1::ListMembersRequest>) -> Reply<v1::ListMembersResponse> {
        let call = |request: v1::ListMembersRequest| Ok(Call::new(ListMembers { list: list_request!(request) }));
        let response = |page: ListPage<Member>| v1::ListMembersResponse {
            members: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn update_member(&self, request: Request<v1::UpdateMemberRequest>) -> Reply<v1::UpdateMemberResponse> {
        let call = |request: v1::UpdateMemberRequest| {
            let member = fields::required("member", request.member)?;
            let user_id = fields::id("member.user_id", &member.user_id)?;
            let set = [("name", !member.name.is_empty()), ("role", member.role != 0)];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            let new_role = match mask.take("role", member.role) {
                Some(number) => Some(fields::required("member.role", role(number)?)?),
                None => None,
            };
            let operation = UpdateMember { user_id, name: mask.take("name", member.name), role: new_role };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |member: Member| v1::UpdateMemberResponse { member: Some((&member).into()) };
        self.call(request, call, response).await
    }

    async fn remove_member(&self, request: Request<v1::RemoveMemberRequest>) -> Reply<v1::RemoveMemberResponse> {
        let call = |request: v1::RemoveMemberRequest| {
            let operation = RemoveMember { user_id: fields::id("user_id", &request.user_id)? };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |()| v1::RemoveMemberResponse {}).await
    }
}

/// The role of a member. None: unspecified.
fn role(number: i32) -> folio_types::Result<Option<Role>> {
    Ok(fields::choice::<v1::Role>("member.role", number)?.specified())
}
