//! Who wants to see the requests of one pod: each hears those that they asked for, and nobody waits for another.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::tap::{TapEvent, TapFilter, TapLine, TapMatcher};

/// Of one pod at a time.
const MOST_TAPS: usize = 16;

pub struct Taps {
    each: Mutex<Vec<Tapper>>,
    /// What the proxy is told.
    filters: watch::Sender<Vec<TapFilter>>,
    /// Ends with the pod's proxy, and then nobody waits for more.
    ended: CancellationToken,
    _end: DropGuard,
}

struct Tapper {
    filter: TapFilter,
    matcher: TapMatcher,
    lines: mpsc::Sender<Vec<u8>>,
    /// What it has not heard of.
    dropped: u64,
}

impl Default for Taps {
    fn default() -> Self {
        let ended = CancellationToken::new();
        Taps {
            each: Mutex::default(),
            filters: watch::Sender::default(),
            _end: ended.clone().drop_guard(),
            ended,
        }
    }
}

impl Taps {
    pub fn filters(&self) -> watch::Receiver<Vec<TapFilter>> {
        self.filters.subscribe()
    }

    /// Lines follow for as long as somebody reads them.
    pub fn open(self: &Arc<Self>, filter: TapFilter, lines: mpsc::Sender<Vec<u8>>) -> Result<(), String> {
        let matcher = filter.compile()?;
        let mut each = self.each.lock();
        each.retain(|one| !one.lines.is_closed());
        if each.len() >= MOST_TAPS {
            return Err(format!("{MOST_TAPS} others look at this pod's requests already"));
        }
        // So that whoever waits knows that it has begun.
        let _ = lines.try_send(line(&TapLine::default()));
        each.push(Tapper { filter, matcher, lines: lines.clone(), dropped: 0 });
        self.tell_proxy(&each);
        drop(each);
        let (taps, ended) = (Arc::downgrade(self), self.ended.clone());
        tokio::spawn(async move {
            if ended.run_until_cancelled(lines.closed()).await.is_some() {
                forget_closed(&taps);
            }
        });
        Ok(())
    }

    fn tell_proxy(&self, each: &[Tapper]) {
        self.filters.send_replace(each.iter().map(|one| one.filter.clone()).collect());
    }

    /// What the proxy has seen, and how much it could not tell of.
    pub fn tell(&self, events: &[TapEvent], dropped: u64) {
        for tapper in self.each.lock().iter_mut() {
            let is_wanted =
                |one: &&TapEvent| tapper.matcher.matches(&one.method, &one.path, one.code, &one.service);
            let wanted: Vec<&TapEvent> = events.iter().filter(is_wanted).collect();
            tapper.dropped += dropped;
            if wanted.is_empty() && tapper.dropped == 0 {
                continue;
            }
            let mut lines = Vec::new();
            if tapper.dropped > 0 {
                lines = line(&TapLine { dropped: tapper.dropped, ..TapLine::default() });
            }
            for event in &wanted {
                lines.extend(line(&TapLine { request: Some((*event).clone()), dropped: 0 }));
            }
            match tapper.lines.try_send(lines) {
                Ok(()) => tapper.dropped = 0,
                Err(_) => tapper.dropped += wanted.len() as u64,
            }
        }
    }
}

fn forget_closed(taps: &Weak<Taps>) {
    let Some(taps) = taps.upgrade() else { return };
    let mut each = taps.each.lock();
    each.retain(|one| !one.lines.is_closed());
    taps.tell_proxy(&each);
}

fn line(line: &TapLine) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(code: u16) -> TapEvent {
        TapEvent { code, method: "GET".to_owned(), path: "/".to_owned(), ..TapEvent::default() }
    }

    fn read(chunk: &[u8]) -> Vec<TapLine> {
        let lines = chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn each_hears_what_it_wants_and_nobody_waits() {
        let taps = Arc::new(Taps::default());
        let mut filters = taps.filters();
        let errors = TapFilter { status: Some("5xx".to_owned()), ..TapFilter::default() };
        let (sender, mut failed) = mpsc::channel(8);
        taps.open(errors.clone(), sender).unwrap();
        let (sender, mut slow) = mpsc::channel(2);
        taps.open(TapFilter::default(), sender).unwrap();
        assert_eq!(*filters.borrow_and_update(), [errors.clone(), TapFilter::default()]);
        taps.tell(&[event(200), event(503)], 0);
        taps.tell(&[event(200)], 3);
        taps.tell(&[event(204)], 0);
        assert_eq!(read(&failed.recv().await.unwrap()), [TapLine::default()], "it has begun");
        let told = |chunk: Vec<u8>| -> Vec<(u16, u64)> {
            read(&chunk).iter().map(|one| (one.request.as_ref().map_or(0, |r| r.code), one.dropped)).collect()
        };
        assert_eq!(told(failed.recv().await.unwrap()), [(503, 0)]);
        assert_eq!(told(failed.recv().await.unwrap()), [(0, 3)]);
        slow.recv().await.unwrap();
        assert_eq!(told(slow.recv().await.unwrap()), [(200, 0), (503, 0)]);
        taps.tell(&[event(201)], 0);
        assert_eq!(
            told(slow.recv().await.unwrap()),
            [(0, 5), (201, 0)],
            "two of its own, three of the proxy's"
        );
        drop(slow);
        filters.wait_for(|all| *all == [errors.clone()]).await.unwrap();
        drop(taps);
        assert!(failed.recv().await.is_none(), "the pod is gone");
    }

    #[tokio::test]
    async fn taps_of_a_pod_are_bounded() {
        let taps = Arc::new(Taps::default());
        let mut kept = Vec::new();
        for _ in 0..MOST_TAPS {
            let (sender, receiver) = mpsc::channel(1);
            taps.open(TapFilter::default(), sender).unwrap();
            kept.push(receiver);
        }
        let more = || taps.open(TapFilter::default(), mpsc::channel(1).0);
        assert!(more().unwrap_err().contains("16 others"));
        kept.clear();
        more().unwrap();
        let bad = TapFilter { path: Some("(".to_owned()), ..TapFilter::default() };
        assert!(taps.open(bad, mpsc::channel(1).0).is_err());
    }
}
