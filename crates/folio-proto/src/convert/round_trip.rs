//! Tests that the conversion of a value to its proto message and back returns the same value.

use std::fmt::Debug;
use std::time::Duration;

use folio_history::event::{CallView, Event, EventKind, ResultView, RoundView, TurnStatus, TurnView};
use folio_history::journal::{Access, CallStatus, NodeEnd, RoundNode, WorkingExtraction, WorkingState};
use folio_history::task::{ChildStatus, GroupView, TaskOrigin, TaskView};
use folio_resources::policy::{ApprovalRequirement, Approver};
use folio_testkit::unknown_fields::add_unknown_fields;
use folio_types::access::Role;
use folio_types::message::{FinishReason, Message, MessageImage, ThinkingBlock, ToolCall, Usage};
use folio_types::profile::NodeKind;
use folio_types::{
    CallId, Code, Digest, DocumentId, Error, ExtractionId, GroupId, MessageImageId, PromptId, PromptRevId, Reason,
    SchemaId, SchemaRevId, ThreadId, Timestamp, TurnId,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::Value;

use super::time;
use crate::v1;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), object(inner)])
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    vec(("[a-z]{1,6}", inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn turn() -> impl Strategy<Value = TurnId> {
    ("[a-c]", 1u32..9).prop_map(|(seed, number)| TurnId::new(ThreadId::derive(&[&seed]), number))
}

fn call() -> impl Strategy<Value = CallId> {
    (turn(), 1u32..11, 1u32..33).prop_map(|(turn, round, index)| CallId::new(turn, round, index))
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (-5_000_000_000i64..5_000_000_000, 0i32..1_000_000_000).prop_map(|(second, nanosecond)| {
        Timestamp::new(second, if second < 0 { -nanosecond } else { nanosecond }).unwrap()
    })
}

fn usage() -> impl Strategy<Value = Usage> {
    any::<(u64, u64, u64, bool, u32, u64)>().prop_map(|(input, cached, output, reported, model_calls, credits)| Usage {
        input_tokens: input,
        cached_input_tokens: cached,
        output_tokens: output,
        reported,
        model_calls,
        credits,
    })
}

fn task_view() -> impl Strategy<Value = TaskView> {
    (1u32..17, "[a-z]{1,9}", of("[a-z]{1,9}"), "[a-c]").prop_map(|(number, agent, tool, thread)| TaskView {
        number,
        agent,
        tool,
        thread: ThreadId::derive(&[&thread]),
    })
}

fn group_view() -> impl Strategy<Value = GroupView> {
    (call(), vec(task_view(), 0..3)).prop_map(|(call, tasks)| GroupView { call, id: GroupId::derive(&["g"]), tasks })
}

fn origin() -> impl Strategy<Value = Option<Box<TaskOrigin>>> {
    let origin = (call(), 1u32..17, "[a-z]{1,9}", 1u32..4).prop_map(|(call, number, agent, depth)| {
        Box::new(TaskOrigin { call, group: GroupId::derive(&["g"]), number, agent, depth })
    });
    of(origin)
}

fn call_view() -> impl Strategy<Value = CallView> {
    (call(), "[a-z_]{1,9}", object(value()), any::<bool>(), any::<bool>(), of(group_view())).prop_map(
        |(id, name, arguments, writes, needs_approval, group)| CallView {
            id,
            group,
            digest: Digest::of_json(&arguments),
            arguments,
            access: if writes { Access::ReadWrite } else { Access::ReadOnly },
            approval_requirement: needs_approval.then(|| ApprovalRequirement {
                rule: if writes { String::new() } else { name.clone() },
                approver: Approver { roles: vec![Role::Member, Role::Admin], not_by_requester: writes },
            }),
            name,
            needs_approval,
        },
    )
}

/// Generates the values of an enum of the API with the numbers from 1 to `max`.
fn value_of<P: TryFrom<i32, Error: Debug>, T: TryFrom<P, Error: Debug> + Debug>(max: i32) -> impl Strategy<Value = T> {
    (1..=max).prop_map(|number| P::try_from(number).unwrap().try_into().unwrap())
}

fn status() -> impl Strategy<Value = CallStatus> {
    value_of::<v1::CallStatus, _>(9)
}

fn round() -> impl Strategy<Value = RoundView> {
    let result =
        (call(), status(), "\\PC{0,9}").prop_map(|(call, status, content)| ResultView { call, status, content });
    (1u32..11, "\\PC{0,9}", "\\PC{0,9}", vec(call_view(), 0..3), vec(result, 0..3), of(round_node())).prop_map(
        |(round, text, thinking, calls, results, node)| {
            let node = node.map(Box::new);
            RoundView { round, text, thinking, calls, results, node }
        },
    )
}

fn round_node() -> impl Strategy<Value = RoundNode> {
    let end = (of(value()), any::<bool>(), of("[a-z_]{1,9}")).prop_map(|(answer, is_default, next)| NodeEnd {
        answer,
        is_default,
        next,
    });
    ("[a-z_]{1,9}", value_of::<v1::NodeKind, NodeKind>(3), "[A-Za-z]{0,9}", of(end))
        .prop_map(|(name, kind, answer_type, end)| RoundNode { name, kind, answer_type, end })
}

fn working() -> impl Strategy<Value = WorkingState> {
    (of(1u32..9), of(1u32..9), of(value())).prop_map(|(schema, prompt, data)| WorkingState {
        schema_revid: schema.map(|version| SchemaRevId::new(SchemaId::derive(&["s"]), version)),
        prompt_revid: prompt.map(|version| PromptRevId::new(PromptId::derive(&["p"]), version)),
        extraction: data.map(|data| WorkingExtraction {
            id: ExtractionId::derive(&["e"]),
            document: DocumentId::derive(&["d"]),
            prompt: PromptRevId::new(PromptId::derive(&["p"]), 1),
            data,
        }),
        profile_state: schema.map(|version| Box::new(serde_json::json!({ "step": version }))),
    })
}

fn error() -> impl Strategy<Value = Error> {
    (proptest::sample::select(Reason::ALL), "\\PC{0,20}", of(0u64..100_000)).prop_map(|(reason, message, after)| {
        let mut error = Error::new(Code::Unavailable, reason, message).detail("model", "m");
        error.retry_after = after.map(Duration::from_millis);
        error.violations.push(folio_types::FieldViolation { field: "a".into(), description: "b".into() });
        error
    })
}

fn finish() -> impl Strategy<Value = FinishReason> {
    value_of::<v1::FinishReason, _>(5)
}

fn turn_view() -> impl Strategy<Value = TurnView> {
    let status = value_of::<v1::TurnStatus, TurnStatus>(7);
    let head = (turn(), status, "\\PC{0,9}", "\\PC{0,9}", vec(round(), 0..3), vec(call_view(), 0..3));
    let budget = any::<[u64; 3]>().prop_map(|[credits, used, rest]| folio_types::BudgetUse { credits, used, rest });
    let calls = (vec(call(), 0..3), of(budget), origin());
    let tail = (of(timestamp()), working(), of(finish()), of(error()), any::<(bool, u64)>(), usage(), calls);
    (head, tail).prop_map(|((turn, status, model, text, rounds, pending), tail)| {
        let (expires_at, working, finish, error, (retriable, next_event), usage, (approvable, budget, task)) = tail;
        TurnView {
            turn,
            status,
            model,
            user_text: text.clone(),
            rounds,
            pending,
            expires_at,
            working,
            text,
            finish,
            error,
            retriable,
            usage,
            next_event,
            approvable,
            budget,
            task,
        }
    })
}

fn kind() -> impl Strategy<Value = EventKind> {
    let text = || "\\PC{0,20}";
    prop_oneof![
        text().prop_map(|model| EventKind::TurnStarted { model }),
        any::<(u32, u32)>().prop_map(|(round, attempt)| EventKind::RoundStarted { round, attempt }),
        (any::<u32>(), text()).prop_map(|(round, name)| EventKind::NodeStarted { round, name }),
        (any::<u32>(), round_node()).prop_map(|(round, node)| EventKind::NodeEnded { round, node: Box::new(node) }),
        text().prop_map(|text| EventKind::ThinkingDelta { text }),
        text().prop_map(|text| EventKind::TextDelta { text }),
        vec(call_view(), 0..4).prop_map(|calls| EventKind::ToolCalls { calls }),
        (call(), text()).prop_map(|(call, name)| EventKind::ToolStarted { call, name }),
        (call(), text()).prop_map(|(call, name)| EventKind::WaitingForStore { call, name }),
        group_view().prop_map(|group| EventKind::TasksStarted { group }),
        (call(), task_view(), value_of::<v1::TaskStatus, ChildStatus>(6)).prop_map(|(call, task, status)| {
            EventKind::TaskEnded { call, group: GroupId::derive(&["g"]), task, status }
        }),
        (call(), text(), status(), text()).prop_map(|(call, name, status, content)| EventKind::ToolResult {
            call,
            name,
            status,
            content
        }),
        (any::<u32>(), "[a-z]{0,9}", usage()).prop_map(|(round, model, usage)| EventKind::RoundFinished {
            round,
            model,
            usage
        }),
        turn_view().prop_map(|turn| EventKind::Snapshot(Box::new(turn))),
        (any::<u32>(), vec(call_view(), 0..4), timestamp())
            .prop_map(|(round, pending, expires_at)| EventKind::AwaitingApproval { round, pending, expires_at }),
        (text(), text(), working(), vec(round(), 0..3), finish(), usage()).prop_map(
            |(text, thinking, working, rounds, finish, usage)| EventKind::Completed {
                text,
                thinking,
                working,
                rounds,
                finish,
                usage
            }
        ),
        (error(), any::<bool>()).prop_map(|(error, retriable)| EventKind::Failed { error, retriable }),
        Just(EventKind::Cancelled),
        Just(EventKind::Expired),
        Just(EventKind::Superseded),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let block = ("\\PC{0,9}", of("[a-z]{0,9}"), of("[a-z]{0,9}")).prop_map(|(text, signature, data)| ThinkingBlock {
        text,
        signature,
        data,
        model: None,
    });
    let tool_call = ("[a-z0-9]{1,9}", "[a-z]{1,9}", object(value())).prop_map(|(id, name, arguments)| ToolCall {
        id,
        name,
        arguments,
    });
    let image = ("[a-z]{1,9}", any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(name, width, height, bytes)| {
        MessageImage { id: MessageImageId::derive(&[&name]), media_type: name, width, height, bytes }
    });
    prop_oneof![
        ("\\PC{0,20}", vec(image, 0..3)).prop_map(|(text, images)| Message::User { text, images }),
        ("\\PC{0,20}", vec(block, 0..3), vec(tool_call, 0..3)).prop_map(|(text, thinking, calls)| Message::Assistant {
            text,
            thinking,
            calls
        }),
        ("[a-z0-9]{1,9}", "\\PC{0,20}").prop_map(|(call, content)| Message::Tool { call, content }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_event_survives_the_wire_format(
        turn in turn(),
        number in any::<u64>(),
        kind in kind(),
        task in origin(),
    ) {
        let event = Event { turn, number, kind, task };
        let wire = v1::Event::from(&event).encode_to_vec();
        let back = Event::try_from(v1::Event::decode(wire.as_slice()).unwrap()).unwrap();
        prop_assert_eq!(back, event);
    }

    #[test]
    fn fields_of_a_newer_build_are_ignored_in_an_event(
        turn in turn(),
        number in any::<u64>(),
        kind in kind(),
        task in origin(),
    ) {
        let event = Event { turn, number, kind, task };
        let mut wire = v1::Event::from(&event).encode_to_vec();
        prost::encoding::string::encode(1_000, &"new".to_owned(), &mut wire);
        let back = Event::try_from(v1::Event::decode(wire.as_slice()).unwrap()).unwrap();
        prop_assert_eq!(&back, &event);
        // The form in which nodes share events.
        let mut shared = serde_json::to_value(&event).unwrap();
        let read = |value: &Value| serde_json::from_value::<Event>(value.clone()).map_err(|error| error.to_string());
        prop_assert!(add_unknown_fields(&mut shared, |value| read(value).map(drop)) >= 2);
        let back = read(&shared).unwrap();
        prop_assert_eq!((back.turn, back.number), (event.turn, event.number));
        prop_assert_eq!(std::mem::discriminant(&back.kind), std::mem::discriminant(&event.kind));
    }

    #[test]
    fn a_message_survives_the_conversion(message in message()) {
        prop_assert_eq!(Message::try_from(v1::Message::from(&message)).unwrap(), message);
    }

    #[test]
    fn a_timestamp_keeps_its_nanoseconds(at in timestamp()) {
        prop_assert_eq!(time::from_proto("at", &time::to_proto(at)).unwrap(), at);
    }
}
