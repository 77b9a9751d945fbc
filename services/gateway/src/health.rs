//! Reports the health of the server as `grpc.health.v1`, depending on the health of its stores.

use std::collections::BTreeSet;
use std::time::Duration;

use folio_operations::operations;
use folio_storage::StoreHealth;
use folio_types::{Code, Error, Reason, Result};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::access::PACKAGE;

/// Number of consecutive failed checks after which the server reports `NOT_SERVING`: a short overload may cause a
/// single failure.
const FAILURES: u32 = 2;

/// Sets the status of the whole server (the empty name) and of each API service.
pub async fn report(reporter: &HealthReporter, status: ServingStatus) {
    let services: BTreeSet<&str> = operations().map(|operation| operation.service.name).collect();
    reporter.set_service_status("", status).await;
    for service in services {
        reporter.set_service_status(format!("{}{service}", PACKAGE.trim_start_matches('/')), status).await;
    }
}

/// Checks the stores every `interval`, with `interval` as the time-out of a check, and reports changes. Never returns.
pub async fn watch(reporter: HealthReporter, stores: std::sync::Arc<dyn StoreHealth>, interval: Duration) {
    let mut failures = 0;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match check(stores.as_ref(), interval).await {
            Ok(()) => {
                if failures >= FAILURES {
                    tracing::warn!("the stores accept writes again; reporting SERVING");
                    report(&reporter, ServingStatus::Serving).await;
                }
                failures = 0;
            }
            Err(error) => {
                failures += 1;
                if failures == FAILURES {
                    tracing::error!(%error, "the stores accept no writes; reporting NOT_SERVING");
                    report(&reporter, ServingStatus::NotServing).await;
                }
            }
        }
    }
}

async fn check(stores: &dyn StoreHealth, timeout: Duration) -> Result<()> {
    let late = || Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, "the stores did not answer in time");
    match tokio::time::timeout(timeout, stores.check()).await.map_err(|_| late())? {
        // An overloaded store works.
        Err(error) if error.code == Code::ResourceExhausted => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus as Reported;
    use tonic_health::pb::health_server::Health;
    use tonic_health::server::HealthService;

    use super::*;

    /// Scripted health checks of a store, by call number.
    struct ScriptedHealth(AtomicUsize);

    #[async_trait]
    impl StoreHealth for ScriptedHealth {
        async fn check(&self) -> Result<()> {
            let broken = Err(Error::unavailable(Reason::StoreUnavailable, "broken"));
            match self.0.fetch_add(1, Ordering::SeqCst) {
                // One failure, then overload, then failures, then checks that do not return, then success.
                1 => broken,
                2..=3 => Err(Error::exhausted(Reason::StoreUnavailable, "busy")),
                5..=7 => broken,
                8..=9 => std::future::pending().await,
                _ => Ok(()),
            }
        }
    }

    #[tokio::test]
    async fn health_follows_the_stores_and_ignores_a_single_failure() {
        let (reporter, interval) = (HealthReporter::new(), Duration::from_millis(40));
        report(&reporter, ServingStatus::Serving).await;
        let service = HealthService::from_health_reporter(reporter.clone());
        let stores = Arc::new(ScriptedHealth(AtomicUsize::new(0)));
        let watching = tokio::spawn(watch(reporter, stores.clone(), interval));
        let mut seen = Vec::new();
        while stores.0.load(Ordering::SeqCst) < 13 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let request = tonic::Request::new(HealthCheckRequest { service: "folio.v1.TagService".into() });
            let status = service.check(request).await.unwrap().into_inner().status();
            if seen.last() != Some(&status) {
                seen.push(status);
            }
        }
        assert_eq!(seen, [Reported::Serving, Reported::NotServing, Reported::Serving]);
        watching.abort();
    }
}
