//! Serves `PolicyService`.

use folio_operations::policies::{GetPolicy, SetPolicy};
use folio_operations::policy_test::{PolicyTest, RuledVerdict, TestPolicy, TestedCall, Verdict};
use folio_proto::{fields, time, v1};
use folio_resources::Organization;
use folio_types::Etag;
use v1::policy_service_server::PolicyService;

use super::Api;
use super::handler::{change, read};

#[tonic::async_trait]
impl PolicyService for Api {
    read!(
        get_policy,
        GetPolicyRequest,
        GetPolicyResponse,
        |request| GetPolicy { organization_id: fields::optional_id("organization_id", &request.organization_id)? },
        |found: Organization| v1::GetPolicyResponse {
            policy: Some((&found).into()),
            etag: Etag::new(found.version).to_string(),
        }
    );

    change!(
        set_policy,
        SetPolicyRequest,
        SetPolicyResponse,
        |request| {
            let policy = request.policy.unwrap_or_default();
            SetPolicy {
                policy: policy.read()?,
                approval_ttl_seconds: policy.approval_ttl_seconds,
                etag: fields::etag("etag", &request.etag)?,
            }
        },
        |changed: Organization| v1::SetPolicyResponse {
            policy: Some((&changed).into()),
            etag: Etag::new(changed.version).to_string(),
        }
    );

    read!(
        test_policy,
        TestPolicyRequest,
        TestPolicyResponse,
        |request| TestPolicy { policy: request.policy.unwrap_or_default().read()?, calls_max: request.calls_max },
        |test: PolicyTest| v1::TestPolicyResponse {
            calls: test.calls.iter().map(tested_call).collect(),
            counts: test.counts.iter().map(|(verdicts, calls)| count(*verdicts, *calls)).collect(),
            changed: test.changed,
            has_more: test.has_more,
        }
    );
}

fn tested_call(tested: &TestedCall) -> v1::TestedCall {
    v1::TestedCall {
        call_id: tested.call.to_string(),
        tool: tested.tool.clone(),
        user_id: tested.user.to_string(),
        profile: tested.profile.clone(),
        create_time: Some(time::to_proto(tested.at)),
        current: Some(policy_verdict(&tested.current)),
        candidate: Some(policy_verdict(&tested.candidate)),
    }
}

fn policy_verdict(ruled: &RuledVerdict) -> v1::PolicyVerdict {
    let ask = || v1::Ask {
        roles: ruled.approver.roles.iter().map(|role| v1::Role::from(*role).into()).collect(),
        not_by_requester: ruled.approver.not_by_requester,
    };
    v1::PolicyVerdict {
        verdict: verdict(ruled.verdict).into(),
        rule: ruled.rule.clone().unwrap_or_default(),
        ask: (ruled.verdict == Verdict::Waits).then(ask),
    }
}

fn verdict(verdict: Verdict) -> v1::Verdict {
    match verdict {
        Verdict::Runs => v1::Verdict::Runs,
        Verdict::Waits => v1::Verdict::Waits,
        Verdict::Denied => v1::Verdict::Denied,
    }
}

fn count((current, candidate): (Verdict, Verdict), calls: u32) -> v1::VerdictCount {
    v1::VerdictCount { current: verdict(current).into(), candidate: verdict(candidate).into(), calls }
}
