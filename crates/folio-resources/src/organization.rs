//! Organizations: the tenants. Their records belong to the pseudo organization [`OrgId::platform`].

use crate::fields::check_name;
use crate::policy::Policy;
use folio_types::op::{OpResult, Write};
use folio_types::{Error, IngestionMode, OrgId, Reason, Result, Timestamp, limits};
use serde::{Deserialize, Serialize};

use crate::resource::common_functions;
use crate::{Cleanup, Condition, OwnQuotas, Plan, Resource};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    pub id: OrgId,
    pub name: String,
    pub created_at: Timestamp,
    /// Incremented by every change. A write states the version that it expects.
    pub version: u64,
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// Seconds that a turn waits for approvals. None: the default of the installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_ttl_seconds: Option<u32>,
    /// Days without activity after which a thread is deleted. None: threads are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_retention_days: Option<u32>,
    #[serde(default, skip_serializing_if = "TagRuns::is_default")]
    pub tag_runs: TagRuns,
    /// True if an agent makes a proposal for each uploaded document whose upload does not state otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_create: bool,
    /// The mode of the ingestion that begins when the text of a document becomes ready.
    #[serde(default, skip_serializing_if = "IngestionMode::is_default")]
    pub ingestion: IngestionMode,
    /// Quotas that differ from the defaults.
    #[serde(default, skip_serializing_if = "OwnQuotas::is_empty")]
    pub quotas: OwnQuotas,
}

/// Settings of the runs of prompts on documents that have a tag of the prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRuns {
    /// True: a document that becomes ready or is tagged runs no prompt.
    #[serde(default)]
    pub disabled: bool,
    /// Maximum number of documents on which a new revision or a new tag of a prompt runs the prompt. 0: none.
    #[serde(default)]
    pub batch_documents: u32,
}

impl TagRuns {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A change of [`TagRuns`]. None: unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TagRunsPatch {
    pub disabled: Option<bool>,
    pub batch_documents: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrganizationChange {
    /// Creates an organization with default settings.
    Create { name: String },
    /// Changes the fields that are not None. An inner None removes the value.
    Update {
        name: Option<String>,
        thread_retention_days: Option<Option<u32>>,
        tag_runs: TagRunsPatch,
        auto_create: Option<bool>,
        ingestion: Option<IngestionMode>,
    },
    /// Replaces the approval policy and the approval time. The caller has validated the tools and profiles that the
    /// policy names.
    SetPolicy { policy: Policy, approval_ttl_seconds: Option<u32> },
    /// Replaces the organization's own quotas.
    SetQuotas(OwnQuotas),
    /// Deletes the organization; the clean-up erases all its data. Fails with `IN_USE` for the first organization of
    /// the installation.
    Delete,
}

impl OrganizationChange {
    /// Checks the bounds of the new values.
    ///
    /// # Errors
    /// `INVALID_FIELD` with the field name of the API if a value is out of bounds.
    pub fn check(&self) -> Result<()> {
        let at_most = |field: &str, value: Option<u64>, max: u64| match value.is_some_and(|value| value > max) {
            true => Err(Error::invalid_field(field, format!("must be at most {max}"))),
            false => Ok(()),
        };
        match self {
            Self::Create { name } => check_name("organization.name", name),
            Self::Update { name, thread_retention_days, tag_runs, auto_create: _, ingestion: _ } => {
                if let Some(name) = name {
                    check_name("organization.name", name)?;
                }
                let documents = tag_runs.batch_documents.map(u64::from);
                at_most("organization.tag_batch_documents", documents, limits::TAG_RUN_DOCUMENTS_MAX.into())?;
                let days = thread_retention_days.flatten().map(u64::from);
                at_most("organization.thread_retention_days", days, limits::THREAD_RETENTION_DAYS_MAX.into())
            }
            Self::SetPolicy { approval_ttl_seconds, .. } => {
                let max = limits::APPROVAL_TTL_MAX.as_secs();
                at_most("policy.approval_ttl_seconds", approval_ttl_seconds.map(u64::from), max)
            }
            Self::SetQuotas(own) => own.check("own"),
            Self::Delete => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrganizationFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
}

impl Resource for Organization {
    type Change = OrganizationChange;
    type Filter = OrganizationFilter;
    const KIND: &'static str = "organization";
    const DELETE: OrganizationChange = OrganizationChange::Delete;
    const CLEANUP: Cleanup = Cleanup::Dependents;

    common_functions!(OrgId);

    fn label(&self) -> &str {
        &self.name
    }

    fn conditions(filter: &OrganizationFilter) -> Vec<Condition> {
        Condition::name_search(filter.name_search.as_ref()).into_iter().collect()
    }

    fn apply(id: &OrgId, write: &Write<OrganizationChange>, before: Option<Self>) -> Result<Plan<Self>> {
        write.change.check()?;
        // Omits the name, because the op row is kept when the organization's data is erased.
        let result = OpResult::Resource { id: id.to_string(), name: String::new() };
        let Some(before) = before else {
            let OrganizationChange::Create { name } = &write.change else { return Err(Self::not_found(id)) };
            let organization = Self {
                id: id.clone(),
                name: name.clone(),
                created_at: write.at,
                version: 1,
                policy: Policy::default(),
                approval_ttl_seconds: None,
                thread_retention_days: None,
                tag_runs: TagRuns::default(),
                auto_create: false,
                ingestion: IngestionMode::default(),
                quotas: OwnQuotas::default(),
            };
            return Ok(Plan { after: Some(organization), result });
        };
        let mut organization = before.clone();
        match &write.change {
            OrganizationChange::Create { .. } => return Err(Self::not_found(id)),
            OrganizationChange::Update { name, thread_retention_days, tag_runs, auto_create, ingestion } => {
                organization.name.clone_from(name.as_ref().unwrap_or(&before.name));
                organization.thread_retention_days = thread_retention_days.unwrap_or(before.thread_retention_days);
                organization.tag_runs = TagRuns {
                    disabled: tag_runs.disabled.unwrap_or(before.tag_runs.disabled),
                    batch_documents: tag_runs.batch_documents.unwrap_or(before.tag_runs.batch_documents),
                };
                organization.auto_create = auto_create.unwrap_or(before.auto_create);
                organization.ingestion = ingestion.unwrap_or(before.ingestion);
            }
            OrganizationChange::SetPolicy { policy, approval_ttl_seconds } => {
                organization.policy.clone_from(policy);
                organization.approval_ttl_seconds = *approval_ttl_seconds;
            }
            OrganizationChange::SetQuotas(own) => organization.quotas = *own,
            OrganizationChange::Delete if *id == OrgId::first() => {
                let message = "the first organization of the installation cannot be deleted";
                return Err(Error::precondition(Reason::InUse, message));
            }
            OrganizationChange::Delete => return Ok(Plan::deleted()),
        }
        if organization != before {
            organization.version += 1;
        }
        Ok(Plan { after: Some(organization), result })
    }
}

#[cfg(test)]
mod tests {
    use folio_types::op::Expected;

    use super::*;

    fn at() -> Timestamp {
        Timestamp::constant(1_790_000_000, 0)
    }

    fn applied(id: &OrgId, change: OrganizationChange, before: Option<Organization>) -> Result<Plan<Organization>> {
        let write = Write::by_platform(OrgId::platform(), "test".parse()?, at(), Expected::Absent, change);
        Organization::apply(id, &write, before)
    }

    fn created(id: &OrgId) -> Organization {
        applied(id, OrganizationChange::Create { name: "Äcme".into() }, None).unwrap().after.unwrap()
    }

    #[test]
    fn a_change_keeps_the_other_fields_and_increments_the_version_once() {
        let id = OrgId::derive(&["acme"]);
        let new = created(&id);
        assert_eq!((new.version, new.name.as_str(), new.created_at), (1, "Äcme", at()));
        let own = OwnQuotas { documents: Some(7), ..OwnQuotas::default() };
        let limited = applied(&id, OrganizationChange::SetQuotas(own), Some(new.clone())).unwrap().after.unwrap();
        assert_eq!(limited, Organization { version: 2, quotas: own, ..new });
        let update = |days, tag_runs| OrganizationChange::Update {
            name: None,
            thread_retention_days: days,
            tag_runs,
            auto_create: None,
            ingestion: None,
        };
        let days = |days| update(Some(days), TagRunsPatch::default());
        for (patch, expected) in [
            (
                TagRunsPatch { disabled: Some(true), ..Default::default() },
                TagRuns { disabled: true, batch_documents: 0 },
            ),
            (
                TagRunsPatch { batch_documents: Some(9), ..Default::default() },
                TagRuns { disabled: false, batch_documents: 9 },
            ),
            (TagRunsPatch::default(), TagRuns::default()),
        ] {
            let changed = applied(&id, update(None, patch), Some(limited.clone())).unwrap().after.unwrap();
            assert_eq!(changed.tag_runs, expected);
        }
        let kept = applied(&id, days(Some(30)), Some(limited.clone())).unwrap().after.unwrap();
        assert_eq!(kept, Organization { version: 3, thread_retention_days: Some(30), ..limited.clone() });
        let again = applied(&id, days(Some(30)), Some(kept.clone())).unwrap();
        assert_eq!(again.after, Some(kept.clone()), "a change without effect keeps the version");
        assert_eq!(again.result, OpResult::Resource { id: id.to_string(), name: String::new() });
        let removed = applied(&id, days(None), Some(kept)).unwrap().after.unwrap();
        assert_eq!(removed, Organization { version: 4, ..limited.clone() });
        let automatic = OrganizationChange::Update {
            name: None,
            thread_retention_days: None,
            tag_runs: TagRunsPatch::default(),
            auto_create: Some(true),
            ingestion: Some(IngestionMode::Fast),
        };
        let automatic = applied(&id, automatic, Some(limited.clone())).unwrap().after.unwrap();
        let ingestion = IngestionMode::Fast;
        assert_eq!(automatic, Organization { version: 3, auto_create: true, ingestion, ..limited.clone() });
        let unchanged = applied(&id, update(None, TagRunsPatch::default()), Some(automatic.clone())).unwrap();
        assert_eq!(unchanged.after, Some(automatic));
        let policy = OrganizationChange::SetPolicy { policy: Policy::default(), approval_ttl_seconds: Some(60) };
        let ruled = applied(&id, policy, Some(limited.clone())).unwrap().after.unwrap();
        assert_eq!(ruled, Organization { version: 3, approval_ttl_seconds: Some(60), ..limited });
    }

    #[test]
    fn the_first_organization_is_never_deleted() {
        let first = OrgId::first();
        let refused = applied(&first, OrganizationChange::Delete, Some(created(&first))).unwrap_err();
        assert_eq!(refused.reason, Reason::InUse);
    }

    #[test]
    fn only_existing_organizations_are_changed_and_only_new_ones_are_created() {
        let id = OrgId::derive(&["acme"]);
        assert_eq!(applied(&id, OrganizationChange::Delete, Some(created(&id))).unwrap().after, None);
        for change in [OrganizationChange::Delete, OrganizationChange::SetQuotas(OwnQuotas::default())] {
            assert_eq!(applied(&id, change, None).unwrap_err().reason, Reason::NotFound);
        }
        let again = OrganizationChange::Create { name: "again".into() };
        assert_eq!(applied(&id, again, Some(created(&id))).unwrap_err().reason, Reason::NotFound);
    }

    #[test]
    fn a_value_out_of_bounds_is_refused_with_its_field() {
        let id = OrgId::derive(&["acme"]);
        let days = Some(Some(limits::THREAD_RETENTION_DAYS_MAX + 1));
        let ttl = u32::try_from(limits::APPROVAL_TTL_MAX.as_secs()).unwrap() + 1;
        let own = OwnQuotas { storage_bytes: Some(u64::MAX), ..OwnQuotas::default() };
        let policy = OrganizationChange::SetPolicy { policy: Policy::default(), approval_ttl_seconds: Some(ttl) };
        for (change, field) in [
            (
                OrganizationChange::Update {
                    name: Some(" a".into()),
                    thread_retention_days: None,
                    tag_runs: TagRunsPatch::default(),
                    auto_create: None,
                    ingestion: None,
                },
                "organization.name",
            ),
            (
                OrganizationChange::Update {
                    name: None,
                    thread_retention_days: None,
                    tag_runs: TagRunsPatch { disabled: None, batch_documents: Some(limits::TAG_RUN_DOCUMENTS_MAX + 1) },
                    auto_create: None,
                    ingestion: None,
                },
                "organization.tag_batch_documents",
            ),
            (
                OrganizationChange::Update {
                    name: None,
                    thread_retention_days: days,
                    tag_runs: TagRunsPatch::default(),
                    auto_create: None,
                    ingestion: None,
                },
                "organization.thread_retention_days",
            ),
            (policy, "policy.approval_ttl_seconds"),
            (OrganizationChange::SetQuotas(own), "own.storage_bytes"),
        ] {
            let refused = applied(&id, change, Some(created(&id))).unwrap_err();
            assert_eq!(refused.violations[0].field, field);
        }
        let refused = applied(&id, OrganizationChange::Create { name: String::new() }, None).unwrap_err();
        assert_eq!(refused.violations[0].field, "organization.name");
    }

    #[test]
    fn a_value_at_its_bound_is_stored() {
        let id = OrgId::derive(&["acme"]);
        let days = limits::THREAD_RETENTION_DAYS_MAX;
        let change = OrganizationChange::Update {
            name: None,
            thread_retention_days: Some(Some(days)),
            tag_runs: TagRunsPatch::default(),
            auto_create: None,
            ingestion: None,
        };
        let kept = applied(&id, change, Some(created(&id))).unwrap().after.unwrap();
        assert_eq!(kept.thread_retention_days, Some(days));
    }
}
