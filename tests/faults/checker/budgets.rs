//! Invariant 5: no credit budget is exceeded. The check adds up the charges of the model calls that each budget pays, with the
//! reservations of calls whose outcome is unknown.

use std::collections::{HashMap, HashSet};

use folio_types::{BudgetPart, BudgetRoot};

use super::Invariant::Spend;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let of_threads = evidence.threads.iter().map(|thread| {
        let parts: Vec<BudgetPart> = thread.header.budget_parts().cloned().collect();
        (thread.id.as_str(), parts)
    });
    let of_jobs = evidence.jobs.iter().map(|job| {
        let parts: Vec<BudgetPart> = job.header.budget_part().into_iter().collect();
        (job.id.as_str(), parts)
    });
    let parts: HashMap<&str, Vec<BudgetPart>> = of_threads.chain(of_jobs).collect();
    let mut budgets: HashMap<&BudgetRoot, (u64, u64)> = HashMap::new();
    for row in evidence.accounts.iter().flat_map(|account| account.ledgers.values().flatten()) {
        // A key starts with the id of the thread or of the job that made the call.
        let maker = row.key.split('.').next().unwrap_or_default();
        let mut roots = HashSet::new();
        for part in parts.get(maker).into_iter().flatten() {
            // A call that several parts of one budget cover costs the budget once.
            if roots.insert(&part.root) {
                budgets.entry(&part.root).or_insert((part.credits, 0)).1 += row.charge();
            }
        }
    }
    for (root, (credits, charged)) in budgets {
        let reason = format!("the calls of the budget of {credits} credits cost {charged}");
        let subject = match root {
            BudgetRoot::Turn(turn) => turn.to_string(),
            BudgetRoot::Job(job) => job.to_string(),
        };
        findings.add_unless(charged <= credits, Spend, subject, reason);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use folio_credit::{Account, LedgerRow};
    use folio_history::job::NewJob;
    use folio_history::thread::NewThread;
    use folio_types::{BlockId, DocumentId, JobId, OrgId, Principal, Role, ThreadId, Timestamp, UserId};
    use serde_json::json;

    use super::*;
    use crate::faults::checker::{ObservedAccount, ObservedJob, ObservedThread};

    /// Returns the violations of a job with a budget of 10 credits, whose item is a turn, after calls with these makers and credits.
    fn found(calls: &[(&str, u64)]) -> Vec<String> {
        let (org, user, at) = (OrgId::derive(&["org"]), UserId::derive(&["user"]), Timestamp::UNIX_EPOCH);
        let principal = Principal::new(org.clone(), user.clone(), Role::Member);
        let (job, thread) = (JobId::derive(&["job"]), ThreadId::derive(&["thread"]));
        let new = NewJob {
            id: job.clone(),
            principal: principal.clone(),
            kind: "stack_fill".to_owned(),
            input: json!({ "stack": "stack", "credit_budget": 10 }),
            items: vec!["document".to_owned()],
            running_max: Duration::from_secs(60),
            at,
        };
        let observed_job = ObservedJob {
            org: org.clone(),
            id: job.clone(),
            epoch: 0,
            version: 0,
            header: new.header().unwrap(),
            outcomes: Vec::new(),
            batches: 0,
            pages: BTreeMap::new(),
            is_indexed: false,
        };
        let part = BudgetPart::whole(BudgetRoot::Job(job.clone()), 10).child(1);
        let documents = vec![DocumentId::derive(&["document"])];
        let new = NewThread {
            budget_part: Some(part),
            ..NewThread::new(thread.clone(), &principal, "stack_row", documents, at)
        };
        let observed_thread = ObservedThread {
            org: org.clone(),
            id: thread.clone(),
            epoch: 0,
            version: 0,
            header: new.header(),
            entries: Vec::new(),
            batches: 0,
            requests: Vec::new(),
        };
        let row = |(number, (maker, credits)): (usize, &(&str, u64))| {
            let maker = match *maker {
                "job" => job.as_str(),
                "thread" => thread.as_str(),
                other => other,
            };
            LedgerRow::new(&format!("{maker}.1.{number}"), user.clone(), *credits, at)
        };
        let rows = calls.iter().enumerate().map(row).collect();
        let account = ObservedAccount {
            org,
            account: Account::default(),
            entries: Vec::new(),
            ledgers: BTreeMap::from([(BlockId::derive(&["block"]), rows)]),
        };
        let evidence = Evidence {
            threads: vec![observed_thread],
            jobs: vec![observed_job],
            accounts: vec![account],
            ..Evidence::default()
        };
        let mut findings = Findings::default();
        check(&evidence, &mut findings);
        findings.0.into_iter().map(|violation| violation.reason).collect()
    }

    #[test]
    fn calls_within_a_budget_and_calls_of_others_are_permitted() {
        assert_eq!(found(&[]), [""; 0]);
        assert_eq!(found(&[("thread", 4), ("job", 2), ("thread", 4), ("other", 90)]), [""; 0]);
    }

    #[test]
    fn invariant_5_calls_that_cost_more_than_their_budget_are_found() {
        assert_eq!(
            found(&[("thread", 4), ("job", 3), ("thread", 4)]),
            ["the calls of the budget of 10 credits cost 11"]
        );
    }
}
