//! Faults of the model endpoint, of every kind, as a client sees them.

use folio_proto::v1;
use llm_sim::{Fault, FaultPlan, Outcome};

use crate::client::refused;
use crate::sandbox::Setup;

const SCRIPT: &str = "
rules:
  - when: {user: {prefix: hello}}
    answer: {text: 'Hello there, this is an answer of some length.'}
  - when: {user: broken}
    rounds:
      - calls: [{name: get_tag, raw_arguments: '{\"tag_id\": '}, {name: no_such_tool}, {name: get_tag, arguments: {tag: 1}}, {name: list_tags}]
      - text: I see.
  - when: {user: many}
    rounds:
      - calls: [CALLS]
      - text: So many.
";

fn script() -> String {
    SCRIPT.replace("CALLS", &vec!["{name: list_tags}"; 40].join(", "))
}

fn setup() -> Setup {
    Setup::new(script())
        .with("FOLIO_MODELS__TIMEOUTS__FIRST_TOKEN_SECONDS", 0.6)
        .with("FOLIO_MODELS__TIMEOUTS__BETWEEN_TOKENS_SECONDS", 0.6)
}

fn status(code: u16, retry_after: Option<u64>) -> Fault {
    Fault::Status { code, retry_after, body: None }
}

#[tokio::test]
async fn passing_faults_before_the_first_token_are_tried_again() {
    let sandbox = setup().start().await;
    let (client, document) = sandbox.with_document().await;
    for fault in [status(429, Some(1)), status(500, None), status(503, None), Fault::Reset { after_chunks: 0 }] {
        sandbox.sim.faults(&FaultPlan::first(1, fault.clone())).await;
        let before = sandbox.sim.chats().await.len();
        let completed = client.chat(&document, "hello").await.completed().await;
        assert!(completed.text.starts_with("Hello"), "{fault:?}");
        assert_eq!(sandbox.sim.chats().await.len(), before + 2, "{fault:?}");
    }
    sandbox.sim.faults(&FaultPlan::always(Fault::SlowStart { ms: 200 })).await;
    client.chat(&document, "hello").await.completed().await;
}

#[tokio::test]
async fn lasting_faults_fail_the_turn_with_their_reason_and_resuming_goes_on() {
    let cases = [
        (status(429, None), "MODEL_RATE_LIMITED"),
        (status(429, Some(60)), "MODEL_RATE_LIMITED"),
        (status(500, None), "MODEL_FAILED"),
        (Fault::Reset { after_chunks: 0 }, "MODEL_FAILED"),
        (Fault::Reset { after_chunks: 3 }, "MODEL_FAILED"),
        (Fault::Cut { after_chunks: 3, broken: false }, "MODEL_FAILED"),
        (Fault::Cut { after_chunks: 3, broken: true }, "MODEL_FAILED"),
        (Fault::Garbage { after_chunks: 0 }, "MODEL_FAILED"),
        (Fault::Garbage { after_chunks: 3 }, "MODEL_FAILED"),
        (Fault::NoFinish, "MODEL_FAILED"),
        (Fault::Flood { bytes: 400_000 }, "MODEL_FAILED"),
        (Fault::Hang { after_chunks: 0 }, "MODEL_TIMEOUT"),
        (Fault::Hang { after_chunks: 3 }, "MODEL_TIMEOUT"),
        (Fault::SlowStart { ms: 20_000 }, "MODEL_TIMEOUT"),
    ];
    let sandbox = setup().start().await;
    let (client, document) = sandbox.with_document().await;
    for (fault, reason) in cases {
        sandbox.sim.faults(&FaultPlan::always(fault.clone())).await;
        let stream = client.chat(&document, "hello").await;
        let turn = stream.turn();
        let failed = stream.failed().await;
        assert_eq!(failed.error.unwrap().reason, reason, "{fault:?}");
        assert!(failed.retriable, "{fault:?}");
        let found = client.turn(&turn).await;
        assert_eq!((found.status(), found.retriable), (v1::TurnStatus::Failed, true), "{fault:?}");
        sandbox.sim.faults(&FaultPlan::none()).await;
        let completed = client.resume(&turn).await.unwrap().completed().await;
        assert_eq!(completed.text, "Hello there, this is an answer of some length.", "{fault:?}");
    }
    let hung = |chats: &[llm_sim::Recorded]| chats.iter().all(|chat| chat.outcome != Outcome::Waiting);
    sandbox.sim.until("no upstream request left open", hung).await;
}

#[tokio::test]
async fn a_refused_request_fails_for_good() {
    let sandbox = setup().start().await;
    let (client, document) = sandbox.with_document().await;
    for code in [400, 401, 404, 422] {
        sandbox.sim.faults(&FaultPlan::always(status(code, None))).await;
        let before = sandbox.sim.chats().await.len();
        let stream = client.chat(&document, "hello").await;
        let (turn, thread) = (stream.turn(), stream.thread());
        let failed = stream.failed().await;
        assert_eq!((failed.error.unwrap().reason.as_str(), failed.retriable), ("MODEL_REFUSED", false), "{code}");
        assert_eq!(sandbox.sim.chats().await.len(), before + 1, "{code} is not tried again");
        let error = refused(client.resume(&turn).await);
        assert_eq!(error.reason.as_str(), "TURN_NOT_RESUMABLE");
        sandbox.sim.faults(&FaultPlan::none()).await;
        client.say(&thread, "hello again").await.completed().await;
    }
}

#[tokio::test]
async fn invalid_calls_are_reported_to_the_model() {
    let sandbox = setup().start().await;
    let (client, document) = sandbox.with_document().await;
    let completed = client.chat(&document, "broken").await.completed().await;
    assert_eq!(completed.text, "I see.");
    let statuses: Vec<_> = completed.rounds[0].results.iter().map(v1::CallResult::status).collect();
    let failed = v1::CallStatus::Failed;
    assert_eq!(statuses, [failed, failed, failed, v1::CallStatus::Ok], "{:?}", completed.rounds[0].results);
    assert!(completed.rounds[0].results[1].content.contains("no_such_tool"));
}

#[tokio::test]
async fn more_calls_than_a_round_may_have_are_refused_one_by_one() {
    let sandbox = setup().start().await;
    let (client, document) = sandbox.with_document().await;
    let completed = client.chat(&document, "many").await.completed().await;
    let ran = completed.rounds[0].results.iter().filter(|result| result.status() == v1::CallStatus::Ok).count();
    assert_eq!(ran, folio_types::limits::CALLS_PER_ROUND_MAX);
    // Each call of the message that is sent back has its result: llm-sim refuses any other history.
    assert_eq!(completed.text, "So many.");
}

#[tokio::test]
async fn an_endpoint_that_keeps_failing_is_left_alone_for_a_while() {
    let setup = setup().with("FOLIO_MODELS__BREAKER__FAILURES", 3).with("FOLIO_MODELS__BREAKER__OPEN_SECONDS", 0.4);
    let sandbox = setup.start().await;
    let (client, document) = sandbox.with_document().await;
    sandbox.sim.faults(&FaultPlan::always(status(500, None))).await;
    client.chat(&document, "hello").await.failed().await;
    let before = sandbox.sim.chats().await.len();
    let failed = client.chat(&document, "hello").await.failed().await;
    assert_eq!(failed.error.unwrap().reason, "MODEL_UNAVAILABLE");
    assert_eq!(sandbox.sim.chats().await.len(), before, "nothing was sent");
    sandbox.sim.faults(&FaultPlan::none()).await;
    folio_testkit::wait_for("the breaker to close", crate::LIMIT, || async {
        let closing = client.chat(&document, "hello").await.close().await;
        matches!(closing, v1::event::Kind::Completed(_)).then_some(())
    })
    .await;
}
