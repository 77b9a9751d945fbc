//! The routes of users that sign in.

use std::collections::BTreeSet;

use folio_accounts::Password;
use folio_operations::ListRequest;
use folio_operations::accounts::{AccountOrganization, DeleteAccount, GetAccount, UpdateAccount};
use folio_operations::organizations::CreateOrganization;
use folio_operations::sign_in::ChangePassword;
use folio_operations::users::{CreateUser, DeleteUser, GetUser, ListUsers, ResetPassword, UpdateUser};
use folio_resources::{Member, User};
use folio_types::{Error, Reason, Role, Timestamp, UserId};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{delete, get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::list::{Limit, Skip, conditions, read_all, to_i32};
use super::organizations::{contains, members, not_found, own_organizations, search};
use super::reply::{Message, Reply, Versioned};
use super::routes::{Level, Route, route};

const USERS: &str = "/v0/account/users";
const USER: &str = "/v0/account/users/{user_id}";

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<GetAccount>(Level::One, get(USERS, list)),
        route::<CreateUser>(Level::One, post(USERS, create)),
        route::<UpdateAccount>(Level::One, put(USER, update)),
        route::<DeleteAccount>(Level::One, delete(USER, remove)),
    ]
}

/// The role of a user in the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum UserRole {
    Admin,
    User,
}

/// A new user.
#[derive(Deserialize, ToSchema)]
struct NewUser {
    /// The e-mail address, which is also the name of the user's own organization.
    email: String,
    /// The display name.
    name: String,
    /// The first password: 12 to 256 characters.
    password: String,
}

/// The fields of a user that a request changes.
#[derive(Deserialize, ToSchema)]
struct UserFields {
    /// The display name. Null: unchanged.
    name: Option<String>,
    /// The new password: 12 to 256 characters. Null: unchanged.
    password: Option<String>,
    /// The current password, with which a user changes its own. A platform administrator needs none.
    current_password: Option<String>,
    /// `admin`: a platform administrator. Only a platform administrator changes it. Null: unchanged.
    role: Option<UserRole>,
    /// Has no effect: Folio sends no e-mail.
    email_verified: Option<bool>,
    /// Has no effect.
    has_seen_tour: Option<bool>,
}

/// A user.
#[derive(Debug, Serialize, ToSchema)]
struct UserBody {
    /// Identifies the user, also as a member of organizations.
    id: String,
    /// The e-mail address. Empty: the member does not sign in.
    email: String,
    /// The display name.
    name: Option<String>,
    /// `admin`: a platform administrator.
    role: UserRole,
    /// Always null: addresses are not verified.
    email_verified: Option<bool>,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// True if the user signs in.
    has_password: bool,
    /// Always null.
    has_seen_tour: Option<bool>,
}

impl From<&User> for UserBody {
    fn from(user: &User) -> Self {
        Self {
            id: user.id.to_string(),
            email: user.email.clone(),
            name: Some(user.name.clone()),
            role: if user.platform { UserRole::Admin } else { UserRole::User },
            email_verified: None,
            created_at: user.created_at,
            updated_at: user.updated_at,
            has_password: true,
            has_seen_tour: None,
        }
    }
}

/// A member that does not sign in.
impl From<&Member> for UserBody {
    fn from(member: &Member) -> Self {
        Self {
            id: member.user.to_string(),
            email: String::new(),
            name: Some(member.name.clone()),
            role: UserRole::User,
            email_verified: None,
            created_at: member.created_at,
            updated_at: member.created_at,
            has_password: false,
            has_seen_tour: None,
        }
    }
}

/// The query parameters of the list of users.
#[derive(Debug, Deserialize, ToSchema)]
struct UsersQuery {
    /// The only user of the list.
    user_id: Option<String>,
    /// The organization whose members are listed. The caller must be its admin.
    organization_id: Option<String>,
    /// Part of the name of a member, without regard to case, at most 200 characters. For a platform administrator without an
    /// organization: part of the name or of the e-mail address of a user.
    search_name: Option<String>,
    /// Number of users before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of users of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
}

/// A page of users.
#[derive(Debug, Serialize, ToSchema)]
struct UserList {
    /// The users of the page, newest first.
    users: Vec<UserBody>,
    /// Number of users that match. For a platform administrator without an organization, exact up to 1,024.
    total_count: u64,
    /// Number of users before the page.
    skip: u32,
}

/// Returns a user: the caller itself, or any one to a platform administrator.
async fn find(client: &Client, user_id: &UserId) -> Result<User, Failure> {
    if *user_id == client.principal().user {
        return client.run(GetAccount {}).await;
    }
    client.run(GetUser { user_id: user_id.clone() }).await
}

/// Returns the organizations whose members the caller lists: those that it administers, or the named one.
///
/// # Errors
/// Status 403 if the caller is no admin of the named organization; 404 if it is no member.
async fn administered(client: &Client, named: Option<&str>) -> Result<Vec<AccountOrganization>, Failure> {
    let mut own = own_organizations(client).await?;
    if let Some(id) = named {
        own.retain(|found| found.organization.id.as_str() == id);
        let found = own.first().ok_or_else(|| not_found(id))?;
        if found.role < Role::Admin {
            let detail = "You are not an admin of this organization";
            return Err(Failure::new(StatusCode::FORBIDDEN, detail));
        }
    }
    own.retain(|found| found.role == Role::Admin);
    Ok(own)
}

/// Returns a page of the members of organizations, each user once, newest first.
async fn page_of_members(
    client: &Client,
    organizations: &[AccountOrganization],
    name: Option<&str>,
    (skip, limit): (u32, u32),
) -> Result<UserList, Failure> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for organization in organizations {
        for member in members(&client.in_organization(organization)).await? {
            if contains(&member.name, name) && seen.insert(member.user.clone()) {
                found.push((organization, member));
            }
        }
    }
    found.sort_by_key(|(_, member)| std::cmp::Reverse(member.created_at));
    let total_count = u64::try_from(found.len()).unwrap_or(u64::MAX);
    let [skipped, count] = [skip, limit].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let mut users = Vec::new();
    for (organization, member) in found.iter().skip(skipped).take(count) {
        match find(&client.in_organization(organization), &member.user).await {
            Ok(user) => users.push((&user).into()),
            Err(failure) if failure.is_not_found() => users.push(member.into()),
            Err(failure) => return Err(failure),
        }
    }
    Ok(UserList { users, total_count, skip })
}

async fn list(client: Client, Query(query): Query<UsersQuery>) -> Reply<Json<UserList>> {
    let name = search("search_name", query.search_name.as_deref())?;
    let (skip, limit) = (query.skip.0, query.limit.0);
    if query.user_id.is_some() && query.organization_id.is_some() {
        return Err(Failure::bad_request("Cannot specify both user_id and organization_id"));
    }
    if let Some(id) = &query.user_id {
        let missing = |_: Error| Error::not_found("user", id.chars().take(80).collect::<String>());
        let user_id: UserId = id.parse().map_err(missing)?;
        let users = vec![(&find(&client, &user_id).await?).into()];
        return Ok(Json(UserList { users, total_count: 1, skip: 0 }));
    }
    if client.is_platform_admin() && query.organization_id.is_none() {
        let (page_size, skip_count, filter) = (to_i32(limit), to_i32(skip), conditions(&[("name:", name)]));
        let list = ListRequest { page_size, skip: skip_count, filter, ..ListRequest::default() };
        let page = client.run(ListUsers { list }).await?;
        let users = page.items.iter().map(Into::into).collect();
        return Ok(Json(UserList { users, total_count: page.total_size, skip }));
    }
    let organizations = administered(&client, query.organization_id.as_deref()).await?;
    if organizations.is_empty() {
        // A user that administers no organization sees itself.
        let user = client.run(GetAccount {}).await?;
        let found: Vec<UserBody> = contains(&user.name, name).then(|| (&user).into()).into_iter().collect();
        let total_count = u64::try_from(found.len()).unwrap_or(u64::MAX);
        let skipped = usize::try_from(skip).unwrap_or(usize::MAX);
        let users = found.into_iter().skip(skipped).collect();
        return Ok(Json(UserList { users, total_count, skip }));
    }
    Ok(Json(page_of_members(&client, &organizations, name, (skip, limit)).await?))
}

async fn create(client: Client, Json(fields): Json<NewUser>) -> Reply<Versioned<UserBody>> {
    let NewUser { email, name, password } = fields;
    let password = Password::parse("password", &password)?;
    let operation = CreateUser { email, name, password, platform: false };
    let created = client.run_part("user", operation).await;
    let user = created
        .map_err(|failure| failure.when(Reason::NameTaken, StatusCode::BAD_REQUEST, "Email already registered"))?;
    // The first organization of the user, which has the name of its address.
    let (name, admin_name, admin_user_id) = (user.email.clone(), user.name.clone(), Some(user.id.clone()));
    let operation = CreateOrganization { name, admin_name, admin_user_id, is_without_token: true };
    client.run_part("organization", operation).await?;
    Ok(Versioned::of(&user))
}

/// Refuses to withdraw the right of the only platform administrator.
async fn check_other_admin(client: &Client, user_id: &UserId) -> Result<(), Failure> {
    let users = read_all(|list| client.run(ListUsers { list })).await?;
    if users.iter().any(|user| user.platform && user.id != *user_id) {
        return Ok(());
    }
    Err(Failure::bad_request("Cannot remove admin role from the last admin user"))
}

async fn update(client: Client, Id(user_id): Id<UserId>, Json(fields): Json<UserFields>) -> Reply<Versioned<UserBody>> {
    let UserFields { name, password, current_password, role, email_verified, has_seen_tour } = fields;
    let has_change = name.is_some() || password.is_some() || role.is_some();
    if !has_change && email_verified.is_none() && has_seen_tour.is_none() {
        return Err(Failure::bad_request("No valid update data provided"));
    }
    let is_own = user_id == client.principal().user;
    let is_administered = client.is_platform_admin() || !is_own;
    let new_password = password.map(|password| Password::parse("password", &password)).transpose()?;
    // Everything that can be refused without a change is checked before the first change.
    let current_password = match (&new_password, is_administered) {
        (Some(_), false) => {
            let needed = || Failure::bad_request("The current password is required: send it as current_password");
            Some(Password::parse("current_password", &current_password.ok_or_else(needed)?)?)
        }
        _ => None,
    };
    if is_administered && role == Some(UserRole::User) && find(&client, &user_id).await?.platform {
        check_other_admin(&client, &user_id).await?;
    }
    let user = if is_administered || role.is_some() {
        let platform = role.map(|role| role == UserRole::Admin);
        let operation = UpdateUser { user_id: user_id.clone(), email: None, name, platform, etag: client.etag };
        client.run_part("user", operation).await?
    } else if name.is_some() {
        client.run_part("user", UpdateAccount { name }).await?
    } else {
        find(&client, &user_id).await?
    };
    let Some(new_password) = new_password else { return Ok(Versioned::of(&user)) };
    match current_password {
        Some(current_password) => {
            client.run_part("password", ChangePassword { current_password, new_password }).await?;
        }
        None => {
            let (password, revoke_account_tokens) = (new_password, false);
            client.run_part("password", ResetPassword { user_id, password, revoke_account_tokens }).await?;
        }
    }
    // A new password is a change of the user. Its session may have ended, so that the user is not read again.
    Ok(Versioned { version: user.version.saturating_add(1), body: (&user).into() })
}

async fn remove(client: Client, Id(user_id): Id<UserId>) -> Reply<Json<Message>> {
    let email = find(&client, &user_id).await?.email;
    if user_id == client.principal().user {
        client.run(DeleteAccount { email }).await?;
    } else {
        client.run(DeleteUser { user_id, email }).await?;
    }
    Ok(Message::new("User and related data deleted successfully"))
}
