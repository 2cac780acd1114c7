//! Bounds on what clients may ask at once, shared fairly: bodies that arrive ([`arrivals`]), and requests that are
//! worked on ([`seats`], decided by the pure [`fair_queue`]).
//!
//! A request takes a seat only when all of it is there, so that a slow client holds nothing that others need. Nodes
//! and administrators have a share that nobody else can take, and whoever has least is served next. Nothing here
//! looks at what is asked for, and requests from inside the process pass by.

mod arrivals;
mod fair_queue;
mod seats;

use std::sync::Arc;

use http::Method;
use minik8s_auth::User;
use minik8s_auth::user::MASTERS;

pub use arrivals::{Arrival, Arrivals, Connection};
pub use seats::{Seat, Seats};

use crate::error::{ApiError, Result};

/// Whose share a request counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// Nodes and administrators: without them the cluster stands still.
    System,
    Ordinary,
}

impl Level {
    pub fn of(user: &User) -> Level {
        match user.in_group(MASTERS) || user.node_name().is_some() {
            true => Level::System,
            false => Level::Ordinary,
        }
    }
}

/// Who asks, as far as fairness goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Flow {
    pub level: Level,
    pub user: Arc<str>,
}

impl Flow {
    pub fn of(user: &User) -> Flow {
        Flow { level: Level::of(user), user: user.name.as_str().into() }
    }
}

/// Reads and writes have seats of their own, so that neither can starve the other.
pub struct InFlight {
    reading: Arc<Seats>,
    writing: Arc<Seats>,
    pub arrivals: Arc<Arrivals>,
}

impl InFlight {
    pub fn new(reading: usize, writing: usize) -> Self {
        let seats = |count: usize| Arc::new(Seats::new(fair_queue::Bounds::of(count)));
        InFlight { reading: seats(reading), writing: seats(writing), arrivals: Arc::default() }
    }

    /// How many requests that only read are worked on now.
    pub fn reading(&self) -> usize {
        self.reading.taken()
    }

    /// Likewise those that may change something.
    pub fn writing(&self) -> usize {
        self.writing.taken()
    }

    /// How many requests wait for a seat.
    pub fn waiting(&self) -> usize {
        self.reading.waiting() + self.writing.waiting()
    }

    /// A seat, at once if one is free, else when it is this user's turn.
    pub async fn enter(&self, method: &Method, flow: &Flow) -> Result<Seat> {
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let seats = if reads { &self.reading } else { &self.writing };
        seats.enter(flow).await.ok_or_else(too_many)
    }
}

pub(super) fn too_many() -> ApiError {
    ApiError::too_many_requests(1, "Too many requests, please try again later.")
}
