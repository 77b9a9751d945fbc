//! Bounds the calls without a token: sign-ins, health and reflection. They are never refused. At a bound, the oldest call
//! of its kind ends, first one from the same address; so a flood ends only its own calls.
//!
//! Health checks (unary), streams (health watches, reflection) and sign-ins have separate permits, so that neither
//! streams nor sign-ins end a check. A path that is not served counts as a check: it is answered at once.

use std::net::IpAddr;
use std::time::Duration;

use folio_permits::{EvictablePermit, EvictingPermits};
use folio_proto::status;
use folio_types::{Code, Error, Reason};
use tokio::time::Instant;

use crate::access::{Route, is_public_stream};
use crate::client_address::network;
use crate::counters::Counters;
use crate::options::Options;

type Permits = EvictingPermits<Option<IpAddr>>;

/// Maximum size of a request message without a token. Its memory has no budget, because no organization owns it.
pub(crate) const MESSAGE_BYTES: usize = 128 * 1024;

pub(crate) struct PublicCalls {
    checks: Permits,
    streams: Permits,
    sign_ins: Permits,
    lifetime: Duration,
    counters: Counters,
}

impl PublicCalls {
    pub(crate) fn new(options: &Options, counters: Counters) -> Self {
        let permits = || EvictingPermits::new(options.public_calls, options.public_calls_per_address);
        let (checks, streams, sign_ins) = (permits(), permits(), permits());
        Self { checks, streams, sign_ins, lifetime: options.public_lifetime, counters }
    }

    /// Registers a call of a path from an address. `route`: the target of the call in its face.
    pub(crate) fn begin(&self, route: Route, path: &str, source: Option<IpAddr>) -> PublicCall {
        let permits = match route {
            Route::Api(_) => &self.sign_ins,
            Route::Public if is_public_stream(path) => &self.streams,
            Route::Public | Route::Unknown => &self.checks,
        };
        let permit = permits.acquire(&source.map(network));
        if permit.has_evicted() {
            self.counters.count_eviction();
        }
        PublicCall { permit, end: Instant::now() + self.lifetime }
    }
}

/// A call in progress.
pub(crate) struct PublicCall {
    permit: EvictablePermit<Option<IpAddr>>,
    end: Instant,
}

impl PublicCall {
    /// Resolves to the error that ends the call.
    pub(crate) fn ended(&self) -> impl Future<Output = Error> + Send + use<> {
        let (evicted, end) = (self.permit.evicted().clone(), self.end);
        async move {
            match tokio::time::timeout_at(end, evicted.cancelled()).await {
                Ok(()) => {
                    let message = "newer calls without a token needed the permit of this call; try again later";
                    Error::exhausted(Reason::Overloaded, message).retry_after(status::RETRY_SOON)
                }
                Err(_) => {
                    let message = "a call without a token has reached its maximum duration; repeat it";
                    Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, message)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::route;

    const CHECK: &str = "/grpc.health.v1.Health/Check";
    const WATCH: &str = "/grpc.health.v1.Health/Watch";
    const SIGN_IN: &str = "/folio.v1.AccountService/SignIn";

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[tokio::test]
    async fn a_flood_of_streams_ends_only_its_own_streams() {
        let public_lifetime = Duration::from_secs(1);
        let options = Options { public_calls: 4, public_calls_per_address: 2, public_lifetime, ..Options::default() };
        let calls = PublicCalls::new(&options, Counters::default());
        let begin = |path, source| calls.begin(route(path), path, source);
        let (check, watch) = (begin(CHECK, address(1)), begin(WATCH, address(1)));
        let sign_in = begin(SIGN_IN, address(1));
        let flood: Vec<_> = (0..10).map(|_| begin(WATCH, address(2))).collect();
        let evicted = |call: &PublicCall| call.permit.evicted().is_cancelled();
        assert!(!evicted(&check) && !evicted(&watch) && !evicted(&sign_in));
        assert_eq!(flood.iter().map(evicted).collect::<Vec<_>>(), [vec![true; 8], vec![false; 2]].concat());
        assert_eq!(flood[0].ended().await.reason, Reason::Overloaded);
        assert_eq!(calls.counters.evictions(), 8);
        assert_eq!(watch.ended().await.code, Code::DeadlineExceeded);
    }
}
