//! Requests as they pass, for whoever taps: who asked for which path of whom, and what came of it.
//!
//! While nobody taps a request costs the look at one flag. While somebody does, nothing waits for them: what does not fit
//! is dropped, and counted. Bodies, headers and queries are never told, and a path only as far as it is of a bearable
//! length.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::Response;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::{Body, Client};

/// Requests that wait to be taken.
const MOST_WAITING: usize = 512;
/// Signs of a path.
const LONGEST_PATH: usize = 512;

/// Which requests are told.
pub type Wanted = Box<dyn Fn(&TappedRequest) -> bool + Send + Sync>;

/// A request whose answer is over.
#[derive(Debug, Clone, PartialEq)]
pub struct TappedRequest {
    pub at: SystemTime,
    pub client: IpAddr,
    /// Who the client has proved to be, if it has.
    pub identity: Option<Arc<str>>,
    pub method: String,
    /// Without the query.
    pub path: String,
    /// Of the route; empty if there was none.
    pub label: Arc<str>,
    /// What of users' objects has led it.
    pub rule: Option<String>,
    /// Who has answered, unless it was the proxy itself.
    pub endpoint: Option<SocketAddr>,
    pub code: u16,
    /// Until the head of the answer.
    pub took: Duration,
    /// Of the answer's body.
    pub bytes: u64,
}

#[derive(Default)]
pub struct Tap {
    is_on: AtomicBool,
    wanted: RwLock<Option<Wanted>>,
    waiting: Mutex<VecDeque<TappedRequest>>,
    filled: Notify,
    dropped: AtomicU64,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

impl Tap {
    /// From now on these are told; none without any.
    pub fn set(&self, wanted: Option<Wanted>) {
        let is_on = wanted.is_some();
        *self.wanted.write() = wanted;
        self.is_on.store(is_on, Ordering::Relaxed);
        if !is_on {
            *self.waiting.lock() = VecDeque::new();
            self.dropped.store(0, Ordering::Relaxed);
        }
    }

    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Returns while something waits to be taken.
    pub async fn filled(&self) {
        while self.waiting.lock().is_empty() {
            self.filled.notified().await;
        }
    }

    /// The oldest that wait, and how many were dropped since this was asked for.
    pub fn take(&self, most: usize) -> (Vec<TappedRequest>, u64) {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(most);
        (waiting.drain(..count).collect(), self.dropped.swap(0, Ordering::Relaxed))
    }

    /// `None` while nobody taps.
    pub(crate) fn begin(&self, client: &Client, method: &str, target: &str) -> Option<Box<TappedRequest>> {
        if !self.is_on() {
            return None;
        }
        let path = target.split('?').next().unwrap_or_default();
        Some(Box::new(TappedRequest {
            at: SystemTime::now(),
            client: client.ip,
            identity: client.identity.clone(),
            method: method.to_owned(),
            path: path.chars().take(LONGEST_PATH).collect(),
            label: "".into(),
            rule: None,
            endpoint: None,
            code: 0,
            took: Duration::ZERO,
            bytes: 0,
        }))
    }

    pub(crate) fn tell(&self, request: TappedRequest) {
        if !self.wanted.read().as_ref().is_some_and(|is_wanted| is_wanted(&request)) {
            return;
        }
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MOST_WAITING {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(request);
        drop(waiting);
        self.filled.notify_one();
    }
}

/// Whose answer a response is: told along with it while somebody taps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint(pub SocketAddr);

impl Endpoint {
    pub fn of<B>(response: &Response<B>) -> Option<SocketAddr> {
        response.extensions().get().map(|Endpoint(address)| *address)
    }
}

/// Tells of a request when its answer is over, however it ends.
#[derive(Debug)]
pub(crate) struct Telling {
    tap: Arc<Tap>,
    request: Option<Box<TappedRequest>>,
}

impl Telling {
    /// Of an answer that has begun.
    pub fn follow(tap: &Arc<Tap>, request: Box<TappedRequest>, response: Response<Body>) -> Response<Body> {
        let telling = Telling { tap: tap.clone(), request: Some(request) };
        response.map(|body| body.telling(telling))
    }

    pub fn add(&mut self, bytes: usize) {
        if let Some(request) = &mut self.request {
            request.bytes += bytes as u64;
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.tap.tell(*request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client::new("192.0.2.9:1234".parse().unwrap(), "http")
    }

    #[test]
    fn nothing_is_told_while_nobody_taps() {
        let tap = Tap::default();
        assert_eq!(tap.begin(&client(), "GET", "/a"), None);
        tap.set(Some(Box::new(|request| request.code >= 500)));
        for (target, code) in [("/a?token=secret", 200), ("/b?token=secret", 503)] {
            let request = tap.begin(&client(), "GET", target).unwrap();
            tap.tell(TappedRequest { code, ..*request });
        }
        let (told, dropped) = tap.take(10);
        let paths: Vec<&str> = told.iter().map(|one| one.path.as_str()).collect();
        assert_eq!((paths, dropped), (vec!["/b"], 0), "without the query");
        let late = tap.begin(&client(), "GET", "/late").unwrap();
        tap.set(None);
        tap.tell(TappedRequest { code: 503, ..*late });
        assert_eq!(tap.take(10), (Vec::new(), 0));
    }

    #[tokio::test]
    async fn slow_tap_loses_requests_and_says_how_many() {
        let tap = Tap::default();
        tap.set(Some(Box::new(|_| true)));
        for _ in 0..MOST_WAITING + 7 {
            tap.tell(*tap.begin(&client(), "GET", &"/x".repeat(LONGEST_PATH)).unwrap());
        }
        tap.filled().await;
        let (told, dropped) = tap.take(100);
        assert_eq!((told.len(), told[0].path.len(), dropped), (100, LONGEST_PATH, 7));
        tap.filled().await;
        assert_eq!(tap.take(1000).0.len(), MOST_WAITING - 100);
    }

    #[test]
    fn answer_is_told_when_it_is_over() {
        let tap = Arc::new(Tap::default());
        tap.set(Some(Box::new(|_| true)));
        let begin = || tap.begin(&client(), "GET", "/").unwrap();
        let own = Telling::follow(&tap, begin(), Response::new(Body::Own(Some("four".into()))));
        assert_eq!(tap.take(9).0[0].bytes, 4);
        drop(own);
        assert_eq!(tap.take(9), (Vec::new(), 0), "once");
    }
}
