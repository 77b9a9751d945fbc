//! Limits of an organization's jobs, and the principal under which a job runs.

use folio_resources::Member;
use folio_types::{Code, Error, Principal, Reason, Result, Role};

folio_types::with_defaults! {
    /// Limits of the jobs of an organization.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct JobLimits {
        /// Maximum number of open jobs that do not run (10,000).
        pub waiting_max: u64 = 10_000,
        /// Maximum number of running jobs (8).
        pub running_max: u32 = 8,
    }
}

impl JobLimits {
    /// Checks that one more job may be created. `open`: the number of open jobs of the organization.
    ///
    /// # Errors
    /// `QUEUE_FULL`.
    pub fn admit(&self, open: u64) -> Result<()> {
        let open_max = self.waiting_max.saturating_add(u64::from(self.running_max));
        if open < open_max {
            return Ok(());
        }
        let waiting = self.waiting_max;
        let message = format!("the organization has {waiting} waiting jobs, the maximum; cancel jobs or wait for them");
        Err(Error::exhausted(Reason::QueueFull, message))
    }
}

/// Returns the principal with which a job starts: the stored principal with at most its current role.
///
/// # Errors
/// `ROLE_NOT_ALLOWED` if the user was removed from the organization, or if its role is below `role_min`.
pub fn current_principal(principal: &Principal, member: Option<&Member>, role_min: Role) -> Result<Principal> {
    let denied = |message: String| Err(Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, message));
    if member.is_some_and(|member| member.removed_at.is_some()) {
        return denied(format!("the user {} was removed from the organization", principal.user));
    }
    let role = principal.role.min(Member::role_max(member));
    if role < role_min {
        let (role, needed) = (role.as_str(), role_min.as_str());
        return denied(format!("the job needs the role {needed}, and the user {} has {role}", principal.user));
    }
    Ok(Principal { role, ..principal.clone() })
}
