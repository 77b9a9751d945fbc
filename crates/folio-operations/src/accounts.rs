//! Operations of a user on its own account, in no organization.

use std::cmp::Reverse;

use folio_resources::fields::check_name;
use folio_resources::{Organization, User, UserChange};
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::{Error, OrgId, Result, Role, UserId, limits};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use crate::account_sessions;
use crate::account_tokens;
use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Access, Declaration, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, outcome_as_json};
use crate::sign_in;
use crate::users::{delete_user, outcome_as_user_id, own_user, update_user};

service! {
    "AccountService", None =>
    sign_in::SignIn, sign_in::SignOut, sign_in::ChangePassword, GetAccount, UpdateAccount, DeleteAccount,
    ListAccountOrganizations, account_tokens::CreateAccountToken, account_tokens::ListAccountTokens,
    account_tokens::RevokeAccountToken, account_sessions::ListAccountSessions, account_sessions::EndAccountSession
}

/// Maximum number of organizations whose members are read concurrently.
const READS: usize = 16;

/// Returns the user of the caller.
#[derive(Debug, Clone, Serialize)]
pub struct GetAccount {}

impl Operation for GetAccount {
    const DECLARATION: Declaration = SERVICE.read("GetAccount").access(Access::Account);
    type Output = User;

    async fn run(self, context: &Context) -> Result<User> {
        own_user(context).await
    }
}

/// Updates the user of the caller.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateAccount {
    /// The new display name. None: unchanged.
    pub name: Option<String>,
}

impl UpdateAccount {
    fn change(&self) -> UserChange {
        UserChange::Update { email: None, name: self.name.clone(), platform: None }
    }
}

impl Operation for UpdateAccount {
    const DECLARATION: Declaration = SERVICE.change("UpdateAccount").access(Access::Account).recorded();
    type Output = User;
    outcome_as_user_id!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<User>> {
        self.name.as_ref().map_or(Ok(()), |name| check_name("name", name))?;
        Ok(AuditRecord::of_own_user(context))
    }

    async fn run(self, context: &Context) -> Result<User> {
        context.caller.require(Scope::Administration, "UpdateAccount")?;
        update_user(context, &context.principal().user, None, self.change()).await
    }
}

/// Deletes the user of the caller permanently.
#[derive(Debug, Clone, Serialize)]
pub struct DeleteAccount {
    /// The e-mail address of the user, as a confirmation.
    pub email: String,
}

impl Operation for DeleteAccount {
    const DECLARATION: Declaration = SERVICE.change("DeleteAccount").access(Access::Account).recorded();
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<()>> {
        Ok(AuditRecord::of_own_user(context))
    }

    async fn run(self, context: &Context) -> Result<()> {
        context.caller.require(Scope::Administration, "DeleteAccount")?;
        delete_user(context, &context.principal().user, &self.email).await
    }
}

/// An organization of a user.
#[derive(Debug, Clone)]
pub struct AccountOrganization {
    pub organization: Organization,
    /// The role of the user in the organization.
    pub role: Role,
}

/// Lists the organizations of which the caller is a member. Filter: `name:` a part of the name.
#[derive(Debug, Clone, Serialize)]
pub struct ListAccountOrganizations {
    pub list: ListRequest,
}

impl Operation for ListAccountOrganizations {
    const DECLARATION: Declaration = SERVICE.read("ListAccountOrganizations").access(Access::Account);
    type Output = ListPage<AccountOrganization>;

    async fn run(self, context: &Context) -> Result<ListPage<AccountOrganization>> {
        let name = filter::name_search(&self.list.filter)?.map(|part| part.to_lowercase());
        let user = &context.principal().user;
        let (scope, keys) = (["account_organizations", user.as_str()], SortKeys::CreateTimeAndName);
        let listing = Listing::new(&self.list, &scope, keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let mut found = organizations_of(context, user).await?;
        found.retain(|found| filter::contains(&found.organization.name, name.as_ref()));
        match listing.page.order {
            Order::Oldest => found.sort_by_key(|found| found.organization.created_at),
            Order::Newest => found.sort_by_key(|found| Reverse(found.organization.created_at)),
            Order::Name | Order::NameDescending => {
                listing.sort_by_name(&mut found, |found| &found.organization.name);
            }
        }
        listing.slice(found)
    }
}

/// Returns the organizations of which a user is a member, by the member rows of the organizations. Removes those that
/// were deleted from the list of the user.
async fn organizations_of(context: &Context, user: &UserId) -> Result<Vec<AccountOrganization>> {
    let (stores, accounts) = (context.stores(), context.stores().accounts());
    let joined = accounts.organizations(user).await?;
    let live = stores.of::<Organization>().get_many(&OrgId::platform(), &joined).await?;
    for deleted in joined.iter().filter(|org| !live.iter().any(|live| live.id == **org)) {
        accounts.remove_organization(user, deleted).await?;
    }
    let access = stores.access();
    let with_role = |organization: Organization| {
        let access = access.clone();
        async move {
            let member = access.member(&organization.id, user).await?;
            let role = member.filter(|member| member.removed_at.is_none()).map(|member| member.role);
            Ok::<_, Error>(role.map(|role| AccountOrganization { organization, role }))
        }
    };
    let found = futures::stream::iter(live).map(with_role).buffered(READS);
    let found: Vec<Option<AccountOrganization>> = found.try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}
