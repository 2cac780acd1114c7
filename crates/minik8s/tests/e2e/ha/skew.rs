//! One server whose clock is minutes wrong: nobody compares two servers' clocks, so it may lead, be replaced in time, and
//! serve as the others do.
//!
//! The clock that tells the time of day is moved by libfaketime, for that one process; the one that only counts is not, as
//! on a machine that was set wrongly.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{HANDOVER, JSON, MAPS, Planes, SERVERS};

/// Less than certificates are dated back, more than any lease lasts.
const SKEW: SignedDuration = SignedDuration::from_secs(120);

#[derive(Debug, Clone, Copy)]
pub struct Skew {
    pub server: usize,
    by: SignedDuration,
}

impl Skew {
    /// Which server's clock is wrong, and whether it is early or late.
    pub fn from_seed(seed: u64) -> Skew {
        let by = if (seed / SERVERS as u64).is_multiple_of(2) { SKEW } else { -SKEW };
        Skew { server: (seed % SERVERS as u64) as usize, by }
    }

    /// For a process whose clock is wrong by so much.
    pub fn environment(self) -> Vec<(String, String)> {
        let places = std::fs::read_dir("/usr/lib").unwrap().flatten();
        let library = places
            .map(|place| place.path().join("faketime/libfaketimeMT.so.1"))
            .find(|library| library.exists())
            .expect("libfaketime: install Debian's package faketime");
        let by = format!("{:+}s", self.by.as_secs());
        let set = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME", &by),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        ];
        set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// How wrong that server's clock is.
    fn of(self, server: usize) -> SignedDuration {
        if server == self.server { self.by } else { SignedDuration::ZERO }
    }

    /// The time that a server writes down is its own: this fails if its clock is right after all.
    pub async fn is_real(self, planes: &Planes) {
        for server in 0..SERVERS {
            let body = json!({"metadata": {"generateName": "what-time-is-it-"}});
            let sent = planes.at(server).await.send(http::Method::POST, MAPS, JSON, &body).await;
            let made = sent.unwrap().1;
            let text = made["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
            let created: Timestamp = text.parse().unwrap_or_else(|_| panic!("no time: {made}"));
            let off = created.duration_since(Timestamp::now()) - self.of(server);
            assert!(off.abs() < SKEW / 2, "server {server} is off by {off:?} more than {self:?}");
        }
    }

    /// The server whose clock is wrong takes over, and is taken over from, within the time that is promised: how long each
    /// took.
    pub async fn hand_over_keeps_its_time(self, planes: &mut Planes) -> Vec<SignedDuration> {
        let others: Vec<usize> = (0..SERVERS).filter(|server| *server != self.server).collect();
        let (leader, _) = planes.until_leads(self.server, |_| true).await;
        let mut took = Vec::new();
        if leader == self.server {
            took.push(self.replaced(planes, &[self.server], others[0]).await);
        }
        took.push(self.replaced(planes, &others, self.server).await);
        took.push(self.replaced(planes, &[self.server], others[0]).await);
        took
    }

    /// Kills these servers, of which one leads, and starts them again when another leads.
    async fn replaced(self, planes: &mut Planes, killed: &[usize], asked: usize) -> SignedDuration {
        let moment = Timestamp::now();
        for server in killed {
            planes.servers[*server].1.crash();
        }
        let (next, _) = planes.until_leads(asked, |leader| !killed.contains(&leader)).await;
        // By the new leader's own clock, which is ours but for what it is wrong by.
        let took = planes.acquired(asked).await.duration_since(moment) - self.of(next);
        println!("with {self:?}, server {next} took over from {killed:?} after {took:?}");
        assert!(took < HANDOVER, "{took:?}");
        for server in killed {
            planes.restart(*server).await;
        }
        took
    }
}

#[test]
fn skew_of_a_seed_is_of_one_server() {
    let all: Vec<Skew> = (0..6).map(Skew::from_seed).collect();
    for server in 0..SERVERS {
        let of_server = all.iter().filter(|skew| skew.server == server);
        assert_eq!(
            of_server.map(|skew| skew.by).fold(SignedDuration::ZERO, |sum, by| sum + by),
            SignedDuration::ZERO
        );
        assert_eq!(all.iter().filter(|skew| !skew.of(server).is_zero()).count(), 2);
    }
}
