//! Golden samples of journal entries.

use super::*;
use folio_resources::{CollectionId, Document, Resource as _, Schema};

pub(super) fn entries() -> Vec<Sample> {
    let call = Call {
        index: 1,
        provider_id: "call_0".into(),
        name: "create_schema".into(),
        arguments: data(),
        access: Access::ReadWrite,
        needs_approval: true,
        approval_requirement: None,
        problem: None,
        repairs: Vec::new(),
    };
    let result = CallResult {
        round: 1,
        index: 1,
        status: CallStatus::Ok,
        content: "{\"ok\":true}".into(),
        change: WorkingChange { schema_revid: Some(schema_revid()), ..WorkingChange::default() },
        usage: Usage::default(),
        at: None,
    };
    let change = WorkingChange { profile_state: with_state().profile_state, ..WorkingChange::default() };
    let rejected = CallResult { status: CallStatus::Rejected, change: WorkingChange::default(), ..result.clone() };
    let unrun = CallResult { status: CallStatus::NotRun, ..rejected.clone() };
    let thinking = vec![
        ThinkingBlock { text: "Hm.".into(), signature: Some("signed".into()), ..ThinkingBlock::default() },
        ThinkingBlock { data: Some("redacted".into()), ..ThinkingBlock::default() },
    ];
    let round = Round {
        turn: 5,
        round: 1,
        model: "model".into(),
        text: "I make a schema.".into(),
        thinking: thinking.clone(),
        calls: vec![call.clone(), Call { index: 2, problem: Some("no such tool".into()), ..sample_call() }],
        results: vec![result.clone()],
        usage: usage(),
        correction: None,
        node: None,
    };
    let approver = Approver { roles: vec![Role::Admin], not_by_requester: true };
    let requirement = Some(ApprovalRequirement { rule: "Two eyes".into(), approver });
    let ruled = Call { approval_requirement: requirement, ..call.clone() };
    let repaired = Call { repairs: vec!["added \"strict\":true".into()], ..call };
    let edited = Decision::ApproveEdited { arguments: data() };
    let decided = vec![(1, Decision::Approve), (2, edited), (3, Decision::Reject { reason: Some("no".into()) })];
    vec![
        sample("accepted", Entry::Accepted(Box::new(accepted()))),
        sample("round", Entry::Round(Box::new(round.clone()))),
        sample("round_ruled", Entry::Round(Box::new(Round { calls: vec![ruled], results: vec![], ..round.clone() }))),
        sample("round_repaired", Entry::Round(Box::new(Round { calls: vec![repaired], results: vec![], ..round }))),
        sample("round_corrected", Entry::Round(Box::new(corrected()))),
        sample(
            "paused",
            Entry::Paused(Paused { turn: 5, round: 1, expires_at: at(), working: working(), event: 12, at: at() }),
        ),
        sample(
            "decisions",
            Entry::Decisions(Decisions {
                turn: 5,
                round: 1,
                decided,
                by: user(),
                role: None,
                token_creator: None,
                decided_at: at(),
                continue_auto_approved: true,
            }),
        ),
        sample(
            "decisions_by_token",
            Entry::Decisions(Decisions {
                turn: 5,
                round: 1,
                decided: vec![(1, Decision::Approve)],
                by: user(),
                role: Some(Role::Admin),
                token_creator: Some(UserId::derive(&["creator"])),
                decided_at: at(),
                continue_auto_approved: false,
            }),
        ),
        sample(
            "accepted_with_images",
            Entry::Accepted(Box::new(Accepted { images: vec![images::image()], ..accepted() })),
        ),
        sample("accepted_with_role", Entry::Accepted(Box::new(Accepted { role: Some(Role::Member), ..accepted() }))),
        sample("accepted_with_profile", Entry::Accepted(Box::new(accepted_with_profile()))),
        sample("accepted_with_budget", Entry::Accepted(Box::new(accepted_with_budget()))),
        sample("accepted_with_call", Entry::Accepted(Box::new(accepted_with_call()))),
        sample("accepted_with_state", Entry::Accepted(Box::new(Accepted { working: with_state(), ..accepted() }))),
        sample(
            "outcome_with_state",
            Entry::Outcome(Outcome { turn: 5, result: CallResult { change, ..result.clone() } }),
        ),
        sample("intent", Entry::Intent(intent(Schema::target(&schema_revid().of), Expected::Absent, Value::Null))),
        sample("intent_version", Entry::Intent(intent(Document::target(&document_id()), Expected::Version(4), data()))),
        sample("group", Entry::Group(Box::new(group()))),
        sample("closing_expired", Entry::Closing(Closing { turn: 5, cause: ClosingCause::Expired, at: at() })),
        sample("outcome", Entry::Outcome(Outcome { turn: 5, result: result.clone() })),
        sample(
            "outcome_timed",
            Entry::Outcome(Outcome { turn: 5, result: CallResult { at: Some(at()), ..result.clone() } }),
        ),
        sample(
            "intent_timed",
            Entry::Intent(Intent {
                at: Some(at()),
                ..intent(Schema::target(&schema_revid().of), Expected::Absent, Value::Null)
            }),
        ),
        sample(
            "intent_references",
            Entry::Intent(Intent {
                arguments: Some(json!({ "schema_id": schema_revid().of })),
                ..intent(Schema::target(&schema_revid().of), Expected::Absent, Value::Null)
            }),
        ),
        sample("resumed", Entry::Resumed(resumed())),
        sample("closing", Entry::Closing(Closing { turn: 5, cause: ClosingCause::Superseded, at: at() })),
        sample(
            "ended",
            ended(End::Completed { text: "Done.".into(), thinking, finish: FinishReason::MaxRounds }, vec![rejected]),
        ),
        sample("ended_failed", ended(End::Failed { error: failure(), retriable: true }, vec![])),
        sample("ended_runs_again", ended_as(End::Failed { error: failure(), retriable: true }, vec![unrun], true)),
        sample("ended_cancelled", ended(End::Cancelled, vec![])),
        sample("ended_expired", ended(End::Expired, vec![])),
        sample("ended_superseded", ended(End::Superseded, vec![])),
        sample("summary", Entry::Summary(summary())),
        sample("round_of_node", Entry::Round(Box::new(node_round()))),
        sample("accepted_with_graph", Entry::Accepted(Box::new(accepted_with_graph()))),
        sample("accepted_with_collection", Entry::Accepted(Box::new(accepted_with_collection()))),
        sample("imported", Entry::Imported(Imported { messages: messages(), working: working(), position: None })),
        sample(
            "accepted_with_position",
            Entry::Accepted(Box::new(Accepted { position: Some(segment_position()), ..accepted() })),
        ),
        sample(
            "imported_with_position",
            Entry::Imported(Imported { messages: messages(), working: working(), position: Some(segment_position()) }),
        ),
    ]
}

fn sample_call() -> Call {
    Call {
        index: 1,
        provider_id: String::new(),
        name: "get_schema".into(),
        arguments: json!({}),
        access: Access::ReadOnly,
        needs_approval: false,
        approval_requirement: None,
        problem: None,
        repairs: Vec::new(),
    }
}

fn segment_position() -> SegmentPosition {
    SegmentPosition { messages: 9, counted: 4, below: vec![31, 12] }
}

fn accepted() -> Accepted {
    Accepted {
        turn: 5,
        request: "client-7".parse().unwrap(),
        digest: Digest::of(b"golden"),
        user: user(),
        role: None,
        text: "What is the total?".into(),
        images: Vec::new(),
        mentions: vec![Mention::Schema(schema_revid()), Mention::Prompt(prompt_revid()), Mention::Tag(tag_id())],
        options: TurnOptions {
            model: "model".into(),
            auto_approve: false,
            auto_approved_tools: vec!["create_tag".into()],
            approval_ttl_seconds: 300,
            rounds_max: 10,
            policy: Policy::default(),
            profile: None,
            credit_budget: None,
            direct_call: None,
            summarizes: false,
        },
        truncate_to: Some(4),
        working: working(),
        position: None,
        at: at(),
    }
}

fn corrected() -> Round {
    Round {
        turn: 5,
        round: 2,
        model: "model".into(),
        text: "The total is 7.".into(),
        usage: usage(),
        correction: Some("Answer with JSON.".into()),
        ..Round::default()
    }
}

fn with_state() -> WorkingState {
    WorkingState { profile_state: Some(Box::new(json!({"step": 2, "open": ["total"]}))), ..working() }
}

fn accepted_with_profile() -> Accepted {
    let accepted = accepted();
    let profile = TurnProfile {
        name: "document".into(),
        version: 2,
        tools: ["get_schema", "create_tag", "delete_tag"].map(str::to_owned).into(),
        waiting_tools: ["delete_tag".to_owned()].into(),
        policy_tools: [].into(),
        subject: Subject::Document(document_id()),
        running_seconds: Some(120),
        credit_budget: Some(5_000),
        answer: AnswerType::Json { schema: json!({"type": "object", "required": ["total"]}) },
        graph: [].into(),
    };
    Accepted { options: TurnOptions { profile: Some(profile), ..accepted.options.clone() }, ..accepted }
}

fn accepted_with_collection() -> Accepted {
    Accepted { mentions: vec![Mention::Collection(CollectionId::derive(&["golden"]))], ..accepted() }
}

fn accepted_with_graph() -> Accepted {
    let accepted = accepted_with_profile();
    let route = TurnNode {
        name: "classify_intent".into(),
        kind: NodeKind::Route,
        tools: Vec::new(),
        answer_type: "UserIntent".into(),
        schema: json!({"type": "object", "required": ["intent_type"]}),
        checks: Vec::new(),
        text_members: Vec::new(),
        default_answer: Some(json!({"intent_type": "unknown"})),
        routes: TurnRoutes {
            member: "intent_type".into(),
            by_value: vec![("qa".into(), "qa_agent".into())],
            otherwise: Some("qa_agent".into()),
        },
    };
    let agent = TurnNode {
        name: "qa_agent".into(),
        kind: NodeKind::Answer,
        tools: vec!["retrieve_documents".into()],
        answer_type: "AnswerResponse".into(),
        schema: json!({"type": "object", "required": ["answer"]}),
        checks: vec![AnswerCheck::Sources, AnswerCheck::Calculated],
        text_members: vec!["answer".into()],
        default_answer: None,
        routes: TurnRoutes::default(),
    };
    let profile = accepted.options.profile.clone().map(|profile| TurnProfile {
        answer: AnswerType::Text,
        graph: [route, agent].into(),
        subject: Subject::Organization,
        ..profile
    });
    Accepted { options: TurnOptions { profile, summarizes: true, ..accepted.options.clone() }, ..accepted }
}

fn node_round() -> Round {
    let end =
        NodeEnd { answer: Some(json!({"intent_type": "unknown"})), is_default: true, next: Some("qa_agent".into()) };
    let node = RoundNode {
        name: "classify_intent".into(),
        kind: NodeKind::Route,
        answer_type: "UserIntent".into(),
        end: Some(end),
    };
    Round { turn: 5, round: 1, model: "model".into(), usage: usage(), node: Some(Box::new(node)), ..Round::default() }
}

fn summary() -> Summary {
    let text = "The user asked for the total.".to_owned();
    Summary { turn: 5, from: 11, to: 20, messages: 24, text, usage: usage(), at: at() }
}

fn accepted_with_budget() -> Accepted {
    let accepted = accepted();
    Accepted { options: TurnOptions { credit_budget: Some(5_000), ..accepted.options.clone() }, ..accepted }
}

fn accepted_with_call() -> Accepted {
    let accepted = accepted();
    let call = AcceptedCall {
        name: "create_tag".into(),
        arguments: json!({"name": "invoices"}),
        access: Access::ReadWrite,
        problem: Some("no".into()),
        repairs: vec!["renamed".into()],
    };
    Accepted { options: TurnOptions { direct_call: Some(Box::new(call)), ..accepted.options.clone() }, ..accepted }
}

fn intent(target: Target, expected: Expected, resolved: Value) -> Intent {
    Intent { turn: 5, round: 1, index: 1, target, expected, arguments: None, resolved, at: None }
}

fn group() -> Group {
    let part = BudgetPart::whole(BudgetRoot::Turn(TurnId::new(thread_id(), 5)), 5_000).child("1.1.1");
    let delegated = GroupTask {
        thread: ThreadId::derive(&["child", "1"]),
        profile: "document".into(),
        tool: None,
        children_max: 3,
        budget_parts: vec![part],
    };
    let used = GroupTask {
        thread: ThreadId::derive(&["child", "2"]),
        profile: "coordinator".into(),
        tool: Some("list_tags".into()),
        children_max: 0,
        budget_parts: Vec::new(),
    };
    Group {
        turn: 5,
        round: 1,
        index: 1,
        id: GroupId::derive(&["golden"]),
        tasks: vec![delegated, used],
        running_max: 3,
        arguments: Some(json!({ "tasks": [] })),
        expires_at: at(),
        event: 9,
        at: at(),
    }
}

fn resumed() -> Resumed {
    Resumed { turn: 5, owner: Incarnation::derive(&["golden"]), epoch: 4, cause: ResumeCause::Takeover, at: at() }
}

fn failure() -> Error {
    Error::unavailable(Reason::ModelTimeout, "no answer")
        .retry_after(std::time::Duration::from_millis(1500))
        .detail("model", "model")
}

fn ended(end: End, results: Vec<CallResult>) -> Entry {
    ended_as(end, results, false)
}

fn ended_as(end: End, results: Vec<CallResult>, runs_again: bool) -> Entry {
    let (working, usage) = (working(), usage());
    Entry::Ended(Box::new(Ended { turn: 5, end, results, runs_again, working, usage, event: 20, at: at() }))
}

fn messages() -> Vec<Message> {
    vec![
        Message::user("Hello"),
        Message::Assistant {
            text: String::new(),
            thinking: vec![],
            calls: vec![ToolCall { id: "call_1_1_1".into(), name: "get_schema".into(), arguments: data() }],
        },
        Message::Tool { call: "call_1_1_1".into(), content: "{}".into() },
        Message::Assistant { text: "Here.".into(), thinking: vec![], calls: vec![] },
    ]
}
