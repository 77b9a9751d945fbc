//! Calls that wait are evaluated by the current policy and memberships as well.

use folio_resources::policy::{Condition, Policy, Rule, Ruling, Test};
use folio_resources::{Member, MemberWrite, Organization, OrganizationChange};
use folio_types::RequestId;

use super::*;

async fn set_policy(sandbox: &Sandbox, rules: Vec<Rule>) {
    let (organizations, platform) = (sandbox.stores.of::<Organization>(), OrgId::platform());
    let org = &sandbox.principal.org;
    let decide = async |expected, change| {
        let key = RequestId::generate(&*sandbox.environment);
        let write = Write::by_platform(platform.clone(), key, sandbox.environment.now(), expected, change);
        organizations.decide(org, write).await.unwrap();
    };
    if organizations.get(&platform, org).await.unwrap().is_none() {
        decide(Expected::Absent, OrganizationChange::Create { name: "acme".into() }).await;
    }
    let version = organizations.get(&platform, org).await.unwrap().unwrap().version;
    let change = OrganizationChange::SetPolicy { policy: Policy { rules }, approval_ttl_seconds: None };
    decide(Expected::Version(version), change).await;
}

fn denied(name: &str) -> Rule {
    let arguments = vec![Condition { path: "name".into(), test: Test::Equals(json!(name)) }];
    Rule { arguments, ..Rule::new("never", Ruling::Deny) }
}

/// None: removes the member.
async fn set_role(sandbox: &Sandbox, user: &UserId, role: Option<Role>) {
    let (access, org, now) = (sandbox.stores.access(), &sandbox.principal.org, sandbox.environment.now());
    let before = access.member(org, user).await.unwrap();
    let removed_at = role.is_none().then_some(now);
    let after = Member { removed_at, ..Member::new(user.clone(), "ann", role.unwrap_or(Role::Member), now) };
    assert!(access.write_member(org, MemberWrite::unguarded(before, after)).await.unwrap());
}

#[tokio::test]
async fn invariant_2_an_approval_must_satisfy_the_current_policy_and_memberships() {
    let sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    let admin = Principal::new(sandbox.principal.org.clone(), UserId::derive(&["admin"]), Role::Admin);
    let approve = async |by: &Principal| sandbox.conversations.approve(by, approve_all(&turn, &pending)).await;
    let refusal = async |by: &Principal| approve(by).await.unwrap_err().reason;
    set_policy(&sandbox, vec![denied("a")]).await;
    assert_eq!(refusal(&sandbox.principal).await, Reason::PolicyDenied, "a rule that is newer than the turn");
    set_policy(&sandbox, Vec::new()).await;
    set_role(&sandbox, &sandbox.principal.user, Some(Role::Viewer)).await;
    assert_eq!(refusal(&sandbox.principal).await, Reason::RoleNotAllowed, "the approver is a viewer now");
    assert_eq!(refusal(&admin).await, Reason::PolicyDenied, "the requester is a viewer now");
    set_role(&sandbox, &sandbox.principal.user, None).await;
    assert_eq!(refusal(&admin).await, Reason::PolicyDenied, "the requester was removed");
    set_role(&sandbox, &sandbox.principal.user, Some(Role::Member)).await;
    assert_eq!(sandbox.turn(&turn).await.status, TurnStatus::AwaitingApproval);
    sandbox.models.then([say("Done.")]);
    reached(approve(&admin).await.unwrap());
    assert_eq!(sandbox.tag_names().await, ["a"]);
    sandbox.finish().await;
}

#[tokio::test]
async fn invariant_2_a_call_that_was_approved_earlier_runs_only_if_the_current_rules_permit_it() {
    let sandbox = Sandbox::start().await;
    let admin = Principal::new(sandbox.principal.org.clone(), UserId::derive(&["admin"]), Role::Admin);
    for (first, second) in [("a", "b"), ("c", "d")] {
        let both = [("create_tag", json!({ "name": first })), ("create_tag", json!({ "name": second }))];
        let (turn, pending) = sandbox.pause_at(calls(&both)).await;
        let approve = |at: usize| decide(&turn, &[(&pending[at], Decision::Approve)]);
        let partial = sandbox.conversations.approve(&admin, approve(0)).await.unwrap();
        assert!(matches!(partial, ApproveAnswer::StillAwaiting { .. }), "{partial:?}");
        let problem = match first {
            "a" => {
                set_policy(&sandbox, vec![denied("a")]).await;
                "policy denies"
            }
            _ => {
                set_role(&sandbox, &admin.user, None).await;
                "may not approve"
            }
        };
        sandbox.models.then([say("Done.")]);
        let answer = sandbox.approve_with(approve(1)).await.unwrap();
        let ApproveAnswer::Reached { round, .. } = answer else { panic!("{answer:?}") };
        assert_eq!([round.results[0].status, round.results[1].status], [CallStatus::Failed, CallStatus::Ok]);
        assert!(round.results[0].content.contains(problem), "{}", round.results[0].content);
    }
    assert_eq!(sandbox.tag_names().await, ["b", "d"]);
    sandbox.finish().await;
}
