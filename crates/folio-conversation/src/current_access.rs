//! The current policy and memberships of an organization. Calls that wait for a decision must satisfy them, in addition to
//! the policy of their turn, when they are approved and again before they run.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_history::Decider;
use folio_history::journal::{Accepted, Access};
use folio_history::thread::ThreadHeader;
use folio_resources::policy::Policy;
use folio_resources::{Member, Organization};
use folio_tools::policy::CurrentRules;
use folio_types::op::Expected;
use folio_types::{OrgId, Principal, Result, Role, UserId};
use serde_json::Value;
use tokio::time::Instant;

use crate::shared::Shared;

/// Time for which the policy and the memberships that an approval read are used for the calls that the approval starts.
const VALID_FOR: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(crate) struct CurrentAccess {
    policy: Policy,
    /// Maximum roles of the users that were read.
    roles: BTreeMap<UserId, Role>,
    read_at: Instant,
}

impl CurrentAccess {
    pub(crate) async fn read(shared: &Shared, org: &OrgId, users: &[&UserId]) -> Result<Self> {
        let (stores, platform, read_at) = (&shared.dependencies.stores, OrgId::platform(), Instant::now());
        let mut users: Vec<UserId> = users.iter().map(|user| (*user).clone()).collect();
        users.sort();
        users.dedup();
        let (organizations, access) = (stores.of::<Organization>(), stores.access());
        let read = async { tokio::try_join!(organizations.get(&platform, org), access.members_of(org, &users)) };
        let (organization, members) = shared.with_store_timeout(read).await?;
        shared.dependencies.turn_slots.cache_quotas(org, organization.as_ref()).await;
        let policy = organization.map(|found| found.policy).unwrap_or_default();
        let roles = users.into_iter().zip(members.iter().map(|member| Member::role_max(member.as_ref()))).collect();
        Ok(Self { policy, roles, read_at })
    }

    /// Returns true if the values are recent and contain these users.
    fn is_valid_for(&self, users: &[&UserId]) -> bool {
        self.read_at.elapsed() < VALID_FOR && users.iter().all(|user| self.roles.contains_key(*user))
    }

    fn role(&self, user: &UserId, role: Role) -> Role {
        self.roles.get(user).map_or(role, |role_max| role.min(*role_max))
    }

    /// Returns the principal with at most its current role.
    pub(crate) fn principal(&self, principal: Principal) -> Principal {
        Principal { role: self.role(&principal.user, principal.role), ..principal }
    }

    /// Returns the rules that apply now to the turn of a requester.
    pub(crate) fn rules(&self, requester: &Requester) -> CurrentRules {
        let role = self.role(&requester.user, requester.role);
        let Requester { user, profile, parent_profiles, .. } = requester;
        CurrentRules { policy: self.policy.of_turn(user, role, profile, parent_profiles), requester: role }
    }
}

/// The user who started a turn.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    user: UserId,
    role: Role,
    /// Profile of the thread.
    profile: String,
    /// Profiles of the turns above a child turn.
    parent_profiles: Vec<String>,
}

impl Requester {
    pub(crate) fn of(accepted: &Accepted, header: &ThreadHeader) -> Self {
        let role = accepted.role.unwrap_or(Role::Member);
        let parent_profiles = header.task.as_ref().map(|task| task.parent_profiles.clone()).unwrap_or_default();
        Self { user: accepted.user.clone(), role, profile: header.profile.clone(), parent_profiles }
    }

    pub(crate) fn user(&self) -> &UserId {
        &self.user
    }
}

/// A call whose round waited for decisions.
#[derive(Debug)]
pub(crate) struct WaitedCall {
    pub(crate) requester: Requester,
    /// None: the call has no decision of its own.
    pub(crate) decided_by: Option<Decider>,
    pub(crate) access: Access,
    /// Values that the approval read.
    pub(crate) recent: Option<CurrentAccess>,
}

impl WaitedCall {
    /// Returns why the planned call must not run, as the tool result. None: it may run.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(crate) async fn denial(
        &self,
        (shared, org): (&Shared, &OrgId),
        (tool, arguments): (&str, &Value),
        expected: Expected,
    ) -> Result<Option<String>> {
        let mut users = vec![&self.requester.user];
        users.extend(self.decided_by.as_ref().map(|decider| &decider.user));
        let read;
        let current = match self.recent.as_ref().filter(|recent| recent.is_valid_for(&users)) {
            Some(recent) => recent,
            None => {
                read = CurrentAccess::read(shared, org, &users).await?;
                &read
            }
        };
        let by = self.decided_by.clone().map(|Decider { user, role, token_creator }| {
            let role = role.unwrap_or(Role::Member);
            current.principal(Principal { token_creator, ..Principal::new(org.clone(), user, role) })
        });
        let call = (tool, self.access, arguments);
        Ok(current.rules(&self.requester).denial(call, expected, by.as_ref(), &self.requester.user))
    }
}
