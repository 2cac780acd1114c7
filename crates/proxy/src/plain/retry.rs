//! Further attempts of a plain request, where its route wants them.
//!
//! The whole request is there, so it can be sent again at any time. It is, if it cannot have had an effect, or if its
//! method says that to have it twice does no harm; never else, whatever the route says.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout};

use super::answer::Wanted;
use super::connection::{Begun, Connection};
use crate::answer::Refusal;
use crate::exchange::{ConnectError, ExchangeError};
use crate::forward::Failure;
use crate::resilience::{Retry, backoff};
use crate::{Front, Route};

/// What one attempt came to.
enum Outcome {
    Answer(Begun),
    Failed { failure: Failure, may_have_effect: bool },
}

impl<F: Front, I: AsyncRead + AsyncWrite + Unpin> Connection<'_, F, I> {
    pub(super) async fn exchange_with_retries(
        &mut self,
        route: &F::Route,
        retry: &Retry,
        is_idempotent: bool,
        wanted: &Wanted<'_>,
    ) -> io::Result<Result<Begun, Refusal>> {
        let endpoints = match route.endpoints_for(self.client) {
            Ok(endpoints) => endpoints,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let start = route.first(self.client, &self.worker.turn, endpoints.len());
        let mut tries = in_order(&endpoints, start).into_iter().cycle();
        for attempt in 0.. {
            // There is at least one, for ever.
            let Some(address) = tries.next() else { break };
            let is_last = attempt >= retry.attempts;
            match self.attempt(route, retry, address, wanted).await? {
                Outcome::Answer(begun) => {
                    let code = begun.head.code;
                    route.outcome(address, code >= 500);
                    if is_last || !is_idempotent || !retry.on.code(code) {
                        return Ok(Ok(begun));
                    }
                }
                Outcome::Failed { failure, may_have_effect } => {
                    route.outcome(address, true);
                    let may_repeat = match may_have_effect {
                        true => is_idempotent && retry.on.reset,
                        // Once, as without any wish for it.
                        false => retry.on.connect_failure || attempt == 0,
                    };
                    if is_last || !may_repeat {
                        return Ok(Err(failure.refusal(route)));
                    }
                }
            }
            sleep(backoff(attempt)).await;
        }
        Ok(Err(Refusal::new(http::StatusCode::SERVICE_UNAVAILABLE, "there is nobody to try")))
    }

    /// On a connection that waits, or a new one.
    async fn attempt(
        &mut self,
        route: &F::Route,
        retry: &Retry,
        address: SocketAddr,
        wanted: &Wanted<'_>,
    ) -> io::Result<Outcome> {
        let timeouts = self.worker.shared.timeouts;
        let limit = retry.per_try.or(route.timeout()).unwrap_or(timeouts.answer);
        let connecting = self.worker.plain_backend(address, timeouts.connect.min(limit));
        let connected = timeout(limit, connecting).await.unwrap_or(Err(ConnectError::TimedOut));
        let backend = match connected {
            Ok((backend, _)) => backend,
            Err(error) => {
                let failure = Failure::Connect(address, error);
                return Ok(Outcome::Failed { failure, may_have_effect: false });
            }
        };
        self.alarm.set(Instant::now(), limit);
        Ok(match self.try_with(backend, wanted).await? {
            Ok(begun) => Outcome::Answer(begun),
            Err(error) => {
                let may_have_effect = !matches!(error, ExchangeError::Unsent(_));
                Outcome::Failed { failure: Failure::Exchange(address, error), may_have_effect }
            }
        })
    }
}

/// Each endpoint once, beginning with the one whose turn it is.
fn in_order(endpoints: &[SocketAddr], start: usize) -> Vec<SocketAddr> {
    let mut order = Vec::new();
    for number in 0..endpoints.len() {
        let address = endpoints[(start + number) % endpoints.len()];
        if !order.contains(&address) {
            order.push(address);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_has_one_try() {
        let address = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        let turns = [address(1), address(2), address(1), address(3)];
        assert_eq!(in_order(&turns, 2), [address(1), address(3), address(2)]);
        assert_eq!(in_order(&[], 0), []);
    }
}
