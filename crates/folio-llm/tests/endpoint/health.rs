//! The circuit breaker of an endpoint, under simulated time.

use folio_breaker::BreakerState;
use llm_sim::Fault;

use super::*;

const FAILURE: Fault = Fault::Status { code: 500, retry_after: None, body: None };

fn with_breaker(url: &str) -> (OpenAiModels, Arc<Simulated>) {
    client(url, |options| {
        options.retries.retries = 0;
        options.breaker.failures = 2;
        options.breaker.open_seconds = Duration::from_millis(30_000);
    })
}

fn breaker(models: &OpenAiModels) -> BreakerState {
    models.endpoints()[0].breaker
}

#[tokio::test]
async fn the_breaker_opens_rejects_calls_and_recovers() {
    let sim = faulty(FaultPlan::always(FAILURE)).await;
    let (models, clock) = with_breaker(&sim.url());
    for _ in 0..2 {
        assert!(matches!(streamed(&models).await.unwrap_err().1, ModelError::Failed(_)));
    }
    assert!(matches!(breaker(&models), BreakerState::Open { .. }));
    clock.advance(Duration::from_secs(10));
    let unavailable = ModelError::Unavailable { retry_after: Duration::from_secs(20) };
    assert_eq!(streamed(&models).await.unwrap_err().1, unavailable);
    assert_eq!(models.complete(request()).await, Err(unavailable));
    assert_eq!(sim.chats().len(), 2, "a rejected call does not reach the endpoint");

    // The probe fails, so the breaker opens again.
    clock.advance(Duration::from_secs(20));
    assert!(matches!(streamed(&models).await.unwrap_err().1, ModelError::Failed(_)));
    assert!(matches!(streamed(&models).await.unwrap_err().1, ModelError::Unavailable { .. }));

    sim.set_faults(FaultPlan::none());
    clock.advance(Duration::from_secs(30));
    assert!(streamed(&models).await.is_ok());
    assert_eq!(breaker(&models), BreakerState::Closed { failures: 0 });
}

#[tokio::test]
async fn one_call_probes_at_a_time_and_a_cancelled_probe_is_replaced() {
    let sim = faulty(FaultPlan::always(FAILURE)).await;
    let (models, clock) = with_breaker(&sim.url());
    for _ in 0..2 {
        assert!(streamed(&models).await.is_err());
    }
    clock.advance(Duration::from_secs(30));
    sim.reset();
    sim.set_faults(FaultPlan::always(Fault::Hang { after_chunks: 0 }));
    let mut probe = Box::pin(models.stream(request()));
    tokio::select! {
        _ = &mut probe => panic!("a hanging probe ended"),
        arrived = sim.wait_until(LIMIT, |requests| !requests.is_empty()) => assert!(arrived.is_ok()),
    }
    assert!(matches!(breaker(&models), BreakerState::HalfOpen { .. }));
    assert!(matches!(streamed(&models).await.unwrap_err().1, ModelError::Unavailable { .. }));
    drop(probe);
    sim.set_faults(FaultPlan::none());
    assert!(streamed(&models).await.is_ok());
}

#[tokio::test]
async fn refusals_rate_limits_and_cancellations_do_not_open_the_breaker() {
    let sim = faulty(FaultPlan::none()).await;
    let (models, _) = with_breaker(&sim.url());
    for code in [429, 400, 401, 404] {
        sim.set_faults(FaultPlan::always(Fault::Status { code, retry_after: None, body: None }));
        for _ in 0..3 {
            assert!(streamed(&models).await.is_err());
        }
    }
    sim.set_faults(FaultPlan::always(Fault::Hold { gate: "never".into(), after_chunks: 2 }));
    for _ in 0..3 {
        drop(models.stream(request()).await.unwrap());
    }
    assert_eq!(breaker(&models), BreakerState::Closed { failures: 0 });
}

#[tokio::test]
async fn broken_streams_open_it() {
    let sim = faulty(FaultPlan::always(Fault::Cut { after_chunks: 3, broken: false })).await;
    let (models, _) = with_breaker(&sim.url());
    for _ in 0..2 {
        assert!(matches!(streamed(&models).await.unwrap_err().1, ModelError::Failed(_)));
    }
    assert!(matches!(breaker(&models), BreakerState::Open { .. }));
}

#[tokio::test]
async fn retries_stop_where_the_breaker_opens() {
    let sim = faulty(FaultPlan::always(FAILURE)).await;
    let (models, _) = client(&sim.url(), |options| {
        options.retries.retries = 3;
        options.breaker.failures = 2;
    });
    let (_, error) = streamed(&models).await.unwrap_err();
    assert!(error.to_string().contains("500"), "the endpoint's own error: {error}");
    assert_eq!(sim.chats().len(), 2);
    assert!(
        error.allows_fallback() && error.is_possibly_charged(),
        "no token was received, and the breaker of another endpoint is closed: {error:?}"
    );
    let error_of_folio = folio_types::Error::from(error);
    assert_eq!(error_of_folio.reason, folio_types::Reason::ModelFailed);
    assert!(error_of_folio.retry_after.is_some(), "{error_of_folio:?}");
}
