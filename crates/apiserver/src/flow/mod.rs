//! Bounds on what clients may ask at once, shared fairly: bodies that arrive ([`arrivals`]), requests that are worked on
//! ([`seats`], decided by the pure [`fair_queue`]), and answers that wait to be taken ([`answers`]).
//!
//! A request takes a seat only when all of it is there, so that a slow client holds nothing that others need. How many
//! seats there are for whom is said by FlowSchemas and PriorityLevelConfigurations ([`configuration`]); within a level
//! whoever has least is served next. Bodies have bounds that no object changes. Requests from inside the process pass by.

mod answers;
mod arrivals;
mod configuration;
pub mod defaults;
mod fair_queue;
pub mod follow;
mod priority_level;
mod schema;
mod seats;

use std::sync::Arc;

use http::{HeaderValue, Method};
use minik8s_auth::user::MASTERS;
use minik8s_auth::{Attributes, User};
use parking_lot::RwLock;

pub use answers::{Answers, Whole};
pub use arrivals::{Arrival, Arrivals, Connection};
pub use configuration::{Configuration, Place};
pub use fair_queue::LevelCounts;
pub use seats::{RequestKind, Seat, Seats};

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

/// All of it together.
pub struct InFlight {
    configuration: RwLock<Arc<Configuration>>,
    total: usize,
    seats: Arc<Seats>,
    pub arrivals: Arc<Arrivals>,
    pub answers: Arc<Answers>,
}

impl InFlight {
    /// With so many seats, limited as in a cluster without objects.
    pub fn new(total: usize) -> Self {
        let configuration = Configuration::new(&[], &[]);
        let seats = Arc::new(Seats::new(total));
        seats.configure(&configuration.bounds(total));
        InFlight {
            configuration: RwLock::new(Arc::new(configuration)),
            total,
            seats,
            arrivals: Arc::default(),
            answers: Arc::default(),
        }
    }

    pub fn configure(&self, configuration: Configuration) {
        self.seats.configure(&configuration.bounds(self.total));
        *self.configuration.write() = Arc::new(configuration);
    }

    /// How many such requests are worked on now.
    pub fn taken(&self, kind: RequestKind) -> usize {
        self.seats.taken(kind)
    }

    /// How the priority levels stand.
    pub fn levels(&self) -> Vec<(Arc<str>, LevelCounts)> {
        self.seats.counts()
    }

    pub fn classify(&self, user: &User, request: &Attributes<'_>) -> Result<Place> {
        let configuration = self.configuration.read().clone();
        configuration.classify(user, request).ok_or_else(too_many)
    }

    /// A seat, at once if one is free, else when it is this flow's turn. None for those who need none.
    pub async fn enter(&self, method: &Method, place: &Place) -> Result<Option<Seat>> {
        if place.is_exempt {
            return Ok(None);
        }
        let kind = match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => RequestKind::ReadOnly,
            _ => RequestKind::Mutating,
        };
        let seat = self.seats.enter(&place.level, place.flow.clone(), kind).await;
        seat.map(Some).ok_or_else(too_many)
    }
}

/// As a header tells it.
fn uid(uid: Option<String>) -> HeaderValue {
    uid.and_then(|uid| HeaderValue::try_from(uid).ok()).unwrap_or(HeaderValue::from_static(""))
}

pub(super) fn too_many() -> ApiError {
    ApiError::too_many_requests(1, "Too many requests, please try again later.")
}
