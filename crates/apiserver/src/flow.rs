//! A bound on how many requests are worked on at once; the rest are told to come back.

use std::sync::Arc;

use http::Method;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, Result};

/// Reads and writes have places of their own, so that neither can starve the other.
pub struct InFlight {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    places: (usize, usize),
}

impl InFlight {
    pub fn new(reading: usize, writing: usize) -> Self {
        InFlight {
            reading: Arc::new(Semaphore::new(reading)),
            writing: Arc::new(Semaphore::new(writing)),
            places: (reading, writing),
        }
    }

    /// How many requests that only read are worked on now.
    pub fn reading(&self) -> usize {
        self.places.0.saturating_sub(self.reading.available_permits())
    }

    /// Likewise those that may change something.
    pub fn writing(&self) -> usize {
        self.places.1.saturating_sub(self.writing.available_permits())
    }

    pub fn enter(&self, method: &Method) -> Result<OwnedSemaphorePermit> {
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let places = if reads { &self.reading } else { &self.writing };
        let full = |_| ApiError::too_many_requests(1, "Too many requests, please try again later.");
        places.clone().try_acquire_owned().map_err(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_server_says_when_to_come_back() {
        let flow = InFlight::new(1, 1);
        let place = flow.enter(&Method::GET).unwrap();
        let refused = flow.enter(&Method::GET).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (429, Some(1)));
        assert!(flow.enter(&Method::POST).is_ok(), "writes have their own places");
        drop(place);
        assert!(flow.enter(&Method::GET).is_ok());
    }
}
