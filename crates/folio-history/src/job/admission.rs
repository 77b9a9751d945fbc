//! Limits of an organization's jobs, and the principal under which a job runs.

use std::time::Duration;

use folio_resources::Member;
use folio_types::limits::JOB_OPEN_MAX;
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Code, Error, Principal, Reason, Result, Role};

folio_types::settings! {
    /// The settings section `jobs`: limits of the jobs of an organization.
    #[derive(Copy, Eq)]
    pub struct JobLimits {
        /// Maximum number of open jobs that do not run.
        pub waiting_max: u64 = 10_000,
        /// Maximum number of running jobs.
        pub running_max: u32 = 8,
        /// Maximum number of items of a job that run at a time.
        pub items_running_max: u32 = 4,
        /// Maximum running time of a job per 100 items. Time in which a job waits does not count.
        pub running_time: Duration as "running_time_seconds" = Duration::from_secs(6 * 60 * 60),
    }
}

impl JobLimits {
    /// # Errors
    /// Lists every invalid setting with its bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("jobs");
        problems.number("waiting_max", self.waiting_max, 0, 1_000_000);
        problems.number("running_max", self.running_max, 1, 1_000);
        problems.number("items_running_max", self.items_running_max, 1, 100);
        problems.seconds("running_time_seconds", self.running_time, Duration::from_secs(1), JOB_OPEN_MAX);
        problems.into_result()
    }

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
