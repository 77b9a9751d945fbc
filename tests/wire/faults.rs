//! Faults of the model endpoint, of every kind, as a client sees them.

use folio_proto::v1;
use llm_sim::{Fault, FaultPlan, Outcome};

use crate::sandbox::Setup;

const SCRIPT: &str = "rules: [{answer: {text: 'Hello there, this is an answer of some length.'}}]";

/// Time limit of each token, in seconds. A model without a fault answers in time, also on a busy machine.
const TOKEN_SECONDS: u32 = 4;

fn status(code: u16, retry_after: Option<u64>) -> Fault {
    Fault::Status { code, retry_after, body: None }
}

#[tokio::test]
async fn lasting_faults_fail_the_turn_with_their_reason_and_resuming_continues_it() {
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
    let setup = Setup::new(SCRIPT)
        .with("FOLIO_MODELS__TIMEOUTS__FIRST_TOKEN_SECONDS", TOKEN_SECONDS)
        .with("FOLIO_MODELS__TIMEOUTS__FIRST_TOKEN_SECONDS_PER_THOUSAND_TOKENS", 0)
        .with("FOLIO_MODELS__TIMEOUTS__BETWEEN_TOKENS_SECONDS", TOKEN_SECONDS);
    let sandbox = setup.start().await;
    let (client, document) = sandbox.with_document().await;
    for (fault, reason) in cases {
        sandbox.sim.set_faults(&FaultPlan::always(fault.clone())).await;
        let stream = client.chat(&document, "hello").await;
        let turn = stream.turn();
        let failed = stream.failed().await;
        assert_eq!(failed.error.unwrap().reason, reason, "{fault:?}");
        assert!(failed.retriable, "{fault:?}");
        let found = client.turn(&turn).await;
        assert_eq!((found.status(), found.retriable), (v1::TurnStatus::Failed, true), "{fault:?}");
        sandbox.sim.set_faults(&FaultPlan::none()).await;
        let completed = client.resume(&turn).await.unwrap().completed().await;
        assert_eq!(completed.text, "Hello there, this is an answer of some length.", "{fault:?}");
    }
    let none_waits = |chats: &[llm_sim::RecordedRequest]| chats.iter().all(|chat| chat.outcome != Outcome::Waiting);
    sandbox.sim.wait_for_requests("no upstream request left open", none_waits).await;
}
