//! Serves `OrganizationService`.

use folio_operations::members::{AddMember, ListMembers, RemoveMember, UpdateMember};
use folio_operations::organizations::{
    CreateOrganization, CreatedOrganization, DeleteOrganization, FoundOrganization, GetOrganization, ListOrganizations,
    UpdateOrganization,
};
use folio_proto::{fields, v1};
use folio_types::{IngestionMode, Role};
use v1::organization_service_server::OrganizationService;

use super::Api;
use super::handler::{change, list, read};

#[tonic::async_trait]
impl OrganizationService for Api {
    change!(
        create_organization,
        CreateOrganizationRequest,
        CreateOrganizationResponse,
        |request| {
            let name = fields::required("organization", request.organization)?.name;
            let admin_user_id = fields::optional_id("admin_user_id", &request.admin_user_id)?;
            CreateOrganization { name, admin_name: request.admin_name, admin_user_id, is_without_token: false }
        },
        |created: CreatedOrganization| v1::CreateOrganizationResponse {
            organization: Some((&created.organization).into()),
            admin: Some((&created.admin).into()),
            admin_token: created.admin_token.unwrap_or_default().reveal().to_owned(),
        }
    );

    list!(
        list_organizations,
        ListOrganizationsRequest,
        ListOrganizations {},
        ListOrganizationsResponse { organizations }
    );

    read!(
        get_organization,
        GetOrganizationRequest,
        GetOrganizationResponse,
        |request| GetOrganization {
            organization_id: fields::optional_id("organization_id", &request.organization_id)?
        },
        |found: FoundOrganization| v1::GetOrganizationResponse {
            organization: Some((&found.organization).into()),
            caller_role: found.caller_role.map_or(v1::Role::Unspecified, v1::Role::from).into(),
            caller_scopes: found.caller_scopes.into_iter().map(|scope| v1::Scope::from(scope).into()).collect(),
        }
    );

    change!(update_organization, UpdateOrganizationRequest, UpdateOrganizationResponse { organization }, |request| {
        let organization = fields::required("organization", request.organization)?;
        let set = [
            ("name", !organization.name.is_empty()),
            ("thread_retention_days", organization.thread_retention_days != 0),
            ("tag_runs_disabled", organization.tag_runs_disabled),
            ("tag_batch_documents", organization.tag_batch_documents != 0),
            ("auto_create", organization.auto_create),
            ("ingestion", organization.ingestion != 0),
        ];
        let mask = fields::mask(request.update_mask.as_ref(), &set)?;
        UpdateOrganization {
            name: mask.take("name", organization.name),
            thread_retention_days: mask.take("thread_retention_days", organization.thread_retention_days),
            tag_runs_disabled: mask.take("tag_runs_disabled", organization.tag_runs_disabled),
            tag_batch_documents: mask.take("tag_batch_documents", organization.tag_batch_documents),
            auto_create: mask.take("auto_create", organization.auto_create),
            ingestion: mask.take("ingestion", organization.ingestion).map(ingestion).transpose()?,
            etag: fields::etag("organization.etag", &organization.etag)?,
        }
    });

    change!(
        delete_organization,
        DeleteOrganizationRequest,
        DeleteOrganizationResponse,
        |request| {
            let organization_id = fields::id("organization_id", &request.organization_id)?;
            DeleteOrganization { organization_id, name: request.name }
        },
        |()| v1::DeleteOrganizationResponse {}
    );

    change!(add_member, AddMemberRequest, AddMemberResponse { member }, |request| {
        let member = fields::required("member", request.member)?;
        AddMember {
            user_id: fields::optional_id("member.user_id", &member.user_id)?,
            name: member.name,
            role: role(member.role)?,
        }
    });

    list!(list_members, ListMembersRequest, ListMembers {}, ListMembersResponse { members });

    change!(update_member, UpdateMemberRequest, UpdateMemberResponse { member }, |request| {
        let member = fields::required("member", request.member)?;
        let user_id = fields::id("member.user_id", &member.user_id)?;
        let set = [("name", !member.name.is_empty()), ("role", member.role != 0)];
        let mask = fields::mask(request.update_mask.as_ref(), &set)?;
        let new_role = mask.take("role", member.role).map(role).transpose()?;
        UpdateMember { user_id, name: mask.take("name", member.name), role: new_role }
    });

    change!(
        remove_member,
        RemoveMemberRequest,
        RemoveMemberResponse,
        |request| RemoveMember { user_id: fields::id("user_id", &request.user_id)? },
        |()| v1::RemoveMemberResponse {}
    );
}

fn ingestion(number: i32) -> folio_types::Result<IngestionMode> {
    let field = "organization.ingestion";
    fields::required(field, fields::choice::<v1::IngestionMode>(field, number)?.specified())
}

fn role(number: i32) -> folio_types::Result<Role> {
    fields::required("member.role", fields::choice::<v1::Role>("member.role", number)?.specified())
}
