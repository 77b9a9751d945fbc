//! The routes of organizations.

use std::collections::BTreeSet;

use folio_operations::ListRequest;
use folio_operations::accounts::{AccountOrganization, GetAccount, ListAccountOrganizations};
use folio_operations::members::{AddMember, ListMembers, RemoveMember, UpdateMember};
use folio_operations::organizations::{
    CreateOrganization, DeleteOrganization, GetOrganization, ListOrganizations, UpdateOrganization,
};
use folio_operations::users::GetUser;
use folio_resources::{Member, Organization};
use folio_types::{Error, OrgId, Role, Timestamp, UserId, limits};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::endpoint::{delete, get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::list::{Limit, Skip, conditions, read_all, to_i32};
use super::reply::{Reply, Versioned};
use super::routes::{Level, Route, route};

const ORGANIZATIONS: &str = "/v0/account/organizations";
const ORGANIZATION: &str = "/v0/account/organizations/{organization_id}";

const UPDATE_DENIED: &str = "Not authorized to update this organization";

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<ListAccountOrganizations>(Level::One, get(ORGANIZATIONS, list)),
        route::<CreateOrganization>(Level::One, post(ORGANIZATIONS, create)),
        route::<UpdateOrganization>(Level::One, put(ORGANIZATION, update)).denied_with(UPDATE_DENIED),
        route::<DeleteOrganization>(Level::One, delete(ORGANIZATION, remove)),
    ]
}

/// The kind of an organization. Folio has one kind: `team`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OrganizationType {
    Individual,
    Team,
    Enterprise,
}

/// The role of a member: `admin`, or `user` for the roles member and viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum MemberRole {
    Admin,
    User,
}

impl From<Role> for MemberRole {
    fn from(role: Role) -> Self {
        if role == Role::Admin { Self::Admin } else { Self::User }
    }
}

/// A member of an organization.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
struct MemberBody {
    /// The user.
    user_id: String,
    /// The role.
    role: MemberRole,
}

impl From<&Member> for MemberBody {
    fn from(member: &Member) -> Self {
        Self { user_id: member.user.to_string(), role: member.role.into() }
    }
}

/// The fields of a new organization.
#[derive(Debug, Deserialize, ToSchema)]
struct NewOrganization {
    /// The display name.
    name: String,
    /// Has no effect.
    #[serde(rename = "type")]
    #[expect(dead_code, reason = "the value is only checked")]
    kind: Option<OrganizationType>,
}

/// The fields of an organization that a request changes.
#[derive(Debug, Deserialize, ToSchema)]
struct OrganizationFields {
    /// The display name. Null: unchanged.
    name: Option<String>,
    /// Has no effect. `enterprise` requires a platform administrator.
    #[serde(rename = "type")]
    kind: Option<OrganizationType>,
    /// The members after the change, with one admin at least. Null: unchanged.
    members: Option<Vec<MemberBody>>,
}

/// An organization. Members without a source in Folio are constant.
#[derive(Debug, Serialize, ToSchema)]
struct OrganizationBody {
    /// Identifies the organization.
    id: String,
    /// The display name.
    name: String,
    /// Always `team`.
    #[serde(rename = "type")]
    kind: OrganizationType,
    /// The members. Empty in an organization of which the caller is no member.
    members: Vec<MemberBody>,
    /// Always false: tags select the prompts that run on a document.
    default_prompt_enabled: bool,
    /// Always false.
    experimental_features: bool,
    /// Always `ERROR`.
    flow_log_level: &'static str,
    /// The reader of documents, which is the same in all organizations.
    #[schema(value_type = Object)]
    ocr_config: Value,
    /// The readers to choose from: none.
    #[schema(value_type = Object)]
    ocr_catalog: Value,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of creation: the time of the last change is not stored.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl OrganizationBody {
    fn new(organization: &Organization, members: &[Member]) -> Self {
        Self {
            id: organization.id.to_string(),
            name: organization.name.clone(),
            kind: OrganizationType::Team,
            members: members.iter().map(Into::into).collect(),
            default_prompt_enabled: false,
            experimental_features: false,
            flow_log_level: "ERROR",
            ocr_config: json!({
                "mode": "tesseract",
                "textract": { "feature_types": [] },
                "mistral": {},
                "mistral_vertex": {},
                "pymupdf": {},
                "llm": { "provider": null, "model": null },
            }),
            ocr_catalog: json!({
                "textract_feature_types": [],
                "modes": [],
                "mistral_enabled": false,
                "mistral_vertex_enabled": false,
            }),
            created_at: organization.created_at,
            updated_at: organization.created_at,
        }
    }

    fn versioned(organization: &Organization, members: &[Member]) -> Versioned<Self> {
        Versioned { version: organization.version, body: Self::new(organization, members) }
    }
}

/// The query parameters of the list of organizations.
#[derive(Debug, Deserialize, ToSchema)]
struct OrganizationsQuery {
    /// The user whose organizations are listed: the caller.
    user_id: Option<String>,
    /// The only organization of the list.
    organization_id: Option<String>,
    /// Part of the name, without regard to case, at most 200 characters.
    name_search: Option<String>,
    /// Part of the name of a member, without regard to case, at most 200 characters.
    member_search: Option<String>,
    /// Number of organizations before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of organizations of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
}

/// A page of organizations.
#[derive(Debug, Serialize, ToSchema)]
struct OrganizationList {
    /// The organizations of the page, newest first.
    organizations: Vec<OrganizationBody>,
    /// Number of organizations that match. For a platform administrator without a search for members, exact up to 1,024.
    total_count: u64,
    /// Number of organizations before the page.
    skip: u32,
}

/// The outcome of a deletion.
#[derive(Debug, Serialize, ToSchema)]
struct Deleted {
    /// Always `success`.
    status: &'static str,
}

/// Returns the text of a search. None: it is absent or blank.
///
/// # Errors
/// Status 400 if it has more than 200 characters.
pub(super) fn search<'a>(name: &str, text: Option<&'a str>) -> Result<Option<&'a str>, Failure> {
    let text = text.filter(|text| !text.trim().is_empty());
    if text.is_some_and(|text| text.chars().count() > limits::SEARCH_CHARS) {
        return Err(Failure::bad_request(format!("{name} exceeds maximum length of {}", limits::SEARCH_CHARS)));
    }
    Ok(text)
}

/// Returns true if a text contains a part, without regard to case. None: every text does.
pub(super) fn contains(text: &str, part: Option<&str>) -> bool {
    part.is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
}

/// Returns the organizations of the caller, newest first.
pub(super) async fn own_organizations(client: &Client) -> Result<Vec<AccountOrganization>, Failure> {
    read_all(|list| client.run(ListAccountOrganizations { list })).await
}

/// Returns the members of the organization in which the caller acts, newest first.
pub(super) async fn members(client: &Client) -> Result<Vec<Member>, Failure> {
    read_all(|list| client.run(ListMembers { list })).await
}

/// Returns the error of an id that names no organization, or one that the caller may not read.
pub(super) fn not_found(id: &str) -> Failure {
    Error::not_found("organization", id.chars().take(80).collect::<String>()).into()
}

/// Returns an organization with its members, which only a member reads.
async fn described(
    client: &Client,
    own: &[AccountOrganization],
    organization: &Organization,
) -> Result<OrganizationBody, Failure> {
    let found = own.iter().find(|found| found.organization.id == organization.id);
    let members = match found {
        Some(found) => members(&client.in_organization(found)).await?,
        None => Vec::new(),
    };
    Ok(OrganizationBody::new(organization, &members))
}

/// Returns an organization of the caller, or any one to a platform administrator.
async fn one(client: &Client, own: &[AccountOrganization], id: &str) -> Result<OrganizationBody, Failure> {
    let Ok(id) = id.parse::<OrgId>() else { return Err(not_found(id)) };
    if let Some(found) = own.iter().find(|found| found.organization.id == id) {
        return described(client, own, &found.organization).await;
    }
    let found = client.run(GetOrganization { organization_id: Some(id) }).await?;
    described(client, own, &found.organization).await
}

async fn list(client: Client, Query(query): Query<OrganizationsQuery>) -> Reply<Json<OrganizationList>> {
    let name = search("name_search", query.name_search.as_deref())?;
    let member = search("member_search", query.member_search.as_deref())?;
    let (skip, limit) = (query.skip.0, query.limit.0);
    if query.user_id.is_some() && query.organization_id.is_some() {
        return Err(Failure::bad_request("Cannot specify both user_id and organization_id"));
    }
    if query.user_id.as_ref().is_some_and(|user| *user != client.principal().user.as_str()) {
        let detail = "Not authorized to view the organizations of this user";
        return Err(Failure::new(StatusCode::FORBIDDEN, detail));
    }
    let own = own_organizations(&client).await?;
    if let Some(id) = &query.organization_id {
        let organizations = vec![one(&client, &own, id).await?];
        return Ok(Json(OrganizationList { organizations, total_count: 1, skip: 0 }));
    }
    let mut organizations = Vec::new();
    if client.is_platform_admin() && query.user_id.is_none() && member.is_none() {
        let (page_size, skip_count, filter) = (to_i32(limit), to_i32(skip), conditions(&[("name:", name)]));
        let list = ListRequest { page_size, skip: skip_count, filter, ..ListRequest::default() };
        let page = client.run(ListOrganizations { list }).await?;
        for organization in &page.items {
            organizations.push(described(&client, &own, organization).await?);
        }
        return Ok(Json(OrganizationList { organizations, total_count: page.total_size, skip }));
    }
    let mut total_count = 0;
    let page = u64::from(skip)..u64::from(skip) + u64::from(limit);
    for found in own.iter().filter(|found| contains(&found.organization.name, name)) {
        let is_on_page = page.contains(&total_count);
        // A search for members reads them all. Otherwise only those of the page are read.
        if is_on_page || member.is_some() {
            let members = members(&client.in_organization(found)).await?;
            if member.is_some() && !members.iter().any(|found| contains(&found.name, member)) {
                continue;
            }
            if is_on_page {
                organizations.push(OrganizationBody::new(&found.organization, &members));
            }
        }
        total_count += 1;
    }
    Ok(Json(OrganizationList { organizations, total_count, skip }))
}

async fn create(client: Client, Json(fields): Json<NewOrganization>) -> Reply<Versioned<OrganizationBody>> {
    // The user of the account becomes the admin. A token of an organization names no account.
    let user = client.run(GetAccount {}).await?;
    // A client of DocRouter finds no token in the response. The user has an account, with which it creates tokens.
    let (admin_name, admin_user_id) = (user.name, Some(user.id));
    let operation = CreateOrganization { name: fields.name, admin_name, admin_user_id, is_without_token: true };
    let created = client.run(operation).await?;
    Ok(OrganizationBody::versioned(&created.organization, &[created.admin]))
}

/// A change of one member.
#[derive(Debug, PartialEq, Eq)]
enum MemberStep {
    Add(UserId, Role),
    SetRole(UserId, Role),
    Remove(UserId),
}

/// Returns the changes that lead from the members to the wanted ones: first new members and admins, then the members with a
/// lower role, then the removed ones, so that the organization always has an admin. A viewer counts as `user` and stays one.
///
/// # Errors
/// Status 400 without an admin, or if a user is listed twice; 422 for a malformed id.
fn plan(current: &[Member], wanted: &[MemberBody]) -> Result<Vec<MemberStep>, Failure> {
    if !wanted.iter().any(|member| member.role == MemberRole::Admin) {
        return Err(Failure::bad_request("Organization must have at least one admin"));
    }
    let (mut listed, mut steps, mut lower) = (BTreeSet::new(), Vec::new(), Vec::new());
    for (index, member) in wanted.iter().enumerate() {
        let invalid = |_: Error| Error::invalid_field(format!("members[{index}].user_id"), "is not the id of a user");
        let user: UserId = member.user_id.parse().map_err(invalid)?;
        if !listed.insert(user.clone()) {
            return Err(Failure::bad_request(format!("The member {user} is listed twice")));
        }
        let role = if member.role == MemberRole::Admin { Role::Admin } else { Role::Member };
        match current.iter().find(|known| known.user == user) {
            None => steps.push(MemberStep::Add(user, role)),
            Some(known) if MemberRole::from(known.role) == member.role => {}
            Some(_) if role == Role::Admin => steps.push(MemberStep::SetRole(user, role)),
            Some(_) => lower.push(MemberStep::SetRole(user, role)),
        }
    }
    let removed = current.iter().filter(|known| !listed.contains(&known.user));
    lower.extend(removed.map(|known| MemberStep::Remove(known.user.clone())));
    steps.append(&mut lower);
    Ok(steps)
}

/// Returns the name of a new member: that of its user, or its id if the caller may not read the user.
async fn name_of(client: &Client, user_id: &UserId) -> Result<String, Failure> {
    match client.run(GetUser { user_id: user_id.clone() }).await {
        Ok(user) => Ok(user.name),
        Err(failure) if failure.is_not_found() => Ok(user_id.to_string()),
        Err(failure) => Err(failure),
    }
}

async fn set_members(client: &Client, steps: Vec<MemberStep>) -> Result<(), Failure> {
    for step in steps {
        match step {
            MemberStep::Add(user_id, role) => {
                let (part, name) = (format!("add {user_id}"), name_of(client, &user_id).await?);
                client.run_part(&part, AddMember { user_id: Some(user_id), name, role }).await?;
            }
            MemberStep::SetRole(user_id, role) => {
                let part = format!("set {user_id}");
                client.run_part(&part, UpdateMember { user_id, name: None, role: Some(role) }).await?;
            }
            MemberStep::Remove(user_id) => {
                client.run_part(&format!("remove {user_id}"), RemoveMember { user_id }).await?;
            }
        }
    }
    Ok(())
}

async fn update(client: Client, Json(fields): Json<OrganizationFields>) -> Reply<Versioned<OrganizationBody>> {
    if fields.kind == Some(OrganizationType::Enterprise) && !client.is_platform_admin() {
        let detail = "Only system administrators can upgrade organizations to Enterprise";
        return Err(Failure::new(StatusCode::FORBIDDEN, detail));
    }
    let steps = match &fields.members {
        Some(wanted) => plan(&members(&client).await?, wanted)?,
        None => Vec::new(),
    };
    let organization = if fields.name.is_some() || client.etag.is_some() {
        let operation = UpdateOrganization {
            name: fields.name,
            thread_retention_days: None,
            tag_runs_disabled: None,
            tag_batch_documents: None,
            auto_create: None,
            ingestion: None,
            etag: client.etag,
        };
        client.run(operation).await?
    } else {
        client.run(GetOrganization { organization_id: None }).await?.organization
    };
    set_members(&client, steps).await?;
    Ok(OrganizationBody::versioned(&organization, &members(&client).await?))
}

async fn remove(client: Client, Id(organization_id): Id<OrgId>) -> Reply<Json<Deleted>> {
    let found = client.run(GetOrganization { organization_id: Some(organization_id.clone()) }).await?;
    client.run(DeleteOrganization { organization_id, name: found.organization.name }).await?;
    Ok(Json(Deleted { status: "success" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        UserId::derive(&[name])
    }

    fn member(name: &str, role: Role) -> Member {
        Member::new(user(name), name, role, Timestamp::UNIX_EPOCH)
    }

    fn wanted(name: &str, role: MemberRole) -> MemberBody {
        MemberBody { user_id: user(name).to_string(), role }
    }

    #[test]
    fn members_are_replaced_without_a_moment_without_an_admin() {
        let current = [
            member("ann", Role::Admin),
            member("bob", Role::Member),
            member("cleo", Role::Viewer),
            member("dan", Role::Admin),
        ];
        let new = [
            wanted("ann", MemberRole::User),
            wanted("bob", MemberRole::Admin),
            wanted("cleo", MemberRole::User),
            wanted("eve", MemberRole::User),
        ];
        let expected = [
            MemberStep::SetRole(user("bob"), Role::Admin),
            MemberStep::Add(user("eve"), Role::Member),
            MemberStep::SetRole(user("ann"), Role::Member),
            MemberStep::Remove(user("dan")),
        ];
        assert_eq!(plan(&current, &new).unwrap(), expected);
        let same: Vec<MemberBody> = current.iter().map(Into::into).collect();
        assert!(plan(&current, &same).unwrap().is_empty());
    }

    #[test]
    fn members_without_an_admin_twice_or_without_an_id_are_refused() {
        let detail = |new: &[MemberBody]| plan(&[], new).unwrap_err().message().to_owned();
        for none in [&[][..], &[wanted("ann", MemberRole::User)]] {
            assert_eq!(detail(none), "Organization must have at least one admin");
        }
        let ann = wanted("ann", MemberRole::Admin);
        assert!(detail(&[ann.clone(), ann]).ends_with("is listed twice"));
        let malformed = MemberBody { user_id: "../x".to_owned(), role: MemberRole::Admin };
        assert!(detail(&[malformed]).contains("is not the id of a user"));
    }

    #[test]
    fn a_search_is_bounded() {
        assert_eq!(search("name_search", Some("  ")).unwrap(), None);
        let long = "x".repeat(201);
        let refused = search("name_search", Some(&long)).unwrap_err();
        assert_eq!(refused.message(), "name_search exceeds maximum length of 200");
        assert_eq!(search("name_search", Some(&long[..200])).unwrap(), Some(&long[..200]));
        assert!(contains("Acme", Some("CM")) && contains("Acme", None) && !contains("Acme", Some("(")));
    }
}
