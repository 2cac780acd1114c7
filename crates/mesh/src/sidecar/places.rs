//! How many connections a proxy has at a time: as many as its memory has room for. The others wait in the listening
//! socket, which costs the proxy nothing, and are taken when one ends.
//!
//! Whoever waits does not wait for silence: when there is no place for a while, the connections that nothing has passed
//! over for longest lose theirs. As long as there are places, a connection may be silent for days.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::{info, warn};

/// What a connection costs, with TLS and the kernel's part of two sockets.
const EACH: u64 = 16 << 10;
/// Of the container, where nobody says.
const USUAL_MEMORY: u64 = 128 << 20;
/// Where there is no limit.
const MOST_MEMORY: u64 = 1 << 30;
/// Files that are not of connections.
const OTHER_FILES: u64 = 64;
/// Without a free place for so long, silent connections end.
const PRESSURE: Duration = Duration::from_secs(1);
/// None that was in use within this time.
const SILENT: Duration = Duration::from_secs(60);
/// One of so many ends at a time.
const SHARE: usize = 16;

/// Those of one direction: at most three of four, so that what comes leaves room for what is sent, and the other way round.
#[derive(Debug)]
pub struct Places {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
    most: usize,
    seats: Mutex<HashMap<u64, Arc<Seat>>>,
    next: AtomicU64,
    begun: Instant,
}

#[derive(Debug, Default)]
struct Seat {
    /// When something passed last, in seconds since the beginning.
    used: AtomicU32,
    task: OnceLock<AbortHandle>,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
    seat: Arc<Seat>,
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

impl Places {
    /// For what is sent, and for what comes.
    pub fn both(total: usize) -> [Arc<Self>; 2] {
        let all = Arc::new(Semaphore::new(total));
        let most = (total * 3 / 4).max(1);
        [(); 2].map(|()| {
            Arc::new(Places {
                own: Arc::new(Semaphore::new(most)),
                all: all.clone(),
                most,
                seats: Mutex::default(),
                next: AtomicU64::new(0),
                begun: Instant::now(),
            })
        })
    }

    /// Returns when there is one.
    pub async fn wait(self: &Arc<Self>) -> Place {
        loop {
            let permits = async {
                let own = self.own.clone().acquire_owned().await.ok();
                [own, self.all.clone().acquire_owned().await.ok()]
            };
            match timeout(PRESSURE, permits).await {
                Ok(permits) => return self.seat(permits),
                Err(_) => self.end_silent(SILENT),
            }
        }
    }

    fn seat(self: &Arc<Self>, permits: [Option<OwnedSemaphorePermit>; 2]) -> Place {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let seat = Arc::<Seat>::default();
        seat.used.store(self.now(), Ordering::Relaxed);
        self.seats.lock().insert(number, seat.clone());
        Place { places: self.clone(), number, seat, _permits: permits }
    }

    fn now(&self) -> u32 {
        u32::try_from(self.begun.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    /// Those that were silent for longest.
    fn end_silent(&self, silence: Duration) {
        let before = self.begun.elapsed().checked_sub(silence).map_or(0, |time| time.as_secs());
        let mut silent: Vec<(u32, AbortHandle)> = {
            let seats = self.seats.lock();
            let used = |seat: &Arc<Seat>| (seat.used.load(Ordering::Relaxed), seat.task.get().cloned());
            seats.values().map(used).filter_map(|(used, task)| Some((used, task?))).collect()
        };
        silent.retain(|(used, _)| u64::from(*used) < before);
        silent.sort_by_key(|(used, _)| *used);
        silent.truncate((self.most / SHARE).max(1));
        if !silent.is_empty() {
            warn!(count = silent.len(), "silent connections end, since others wait for their place");
        }
        silent.iter().for_each(|(_, task)| task.abort());
    }
}

impl Place {
    /// Something has passed.
    pub fn used(&self) {
        self.seat.used.store(self.places.now(), Ordering::Relaxed);
    }

    /// By this it can be ended.
    pub fn of_task(&self) -> impl FnOnce(AbortHandle) + use<> {
        let seat = self.seat.clone();
        move |task| drop(seat.task.set(task))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.seats.lock().remove(&self.number);
    }
}

/// As many as this process has memory and files for.
pub fn room() -> usize {
    let memory = memory(&|path: &str| fs::read_to_string(path).ok());
    let most = memory / 4 * 3 / EACH;
    let files = files().saturating_sub(OTHER_FILES) / 2;
    let most = usize::try_from(most.min(files)).unwrap_or(usize::MAX).max(SHARE);
    info!(most, "connections at a time");
    most
}

/// Of the container, in either form of control groups.
fn memory(read: &dyn Fn(&str) -> Option<String>) -> u64 {
    let files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let Some(text) = files.iter().find_map(|path| read(path)) else { return USUAL_MEMORY };
    // One that is not limited says a word, or a number that no machine has.
    text.trim().parse().unwrap_or(MOST_MEMORY).min(MOST_MEMORY)
}

/// That may be open: as many as are allowed, not as are usual.
fn files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent_task() -> AbortHandle {
        tokio::spawn(std::future::pending::<()>()).abort_handle()
    }

    #[tokio::test(start_paused = true)]
    async fn place_is_waited_for() {
        let [sent, came] = Places::both(4);
        let mut held = [sent.wait().await, sent.wait().await, sent.wait().await].map(Some);
        assert!(timeout(PRESSURE / 2, sent.wait()).await.is_err(), "three of four");
        let other = came.wait().await;
        assert!(timeout(PRESSURE / 2, came.wait()).await.is_err(), "four in all");
        held[0] = None;
        assert!(timeout(PRESSURE / 2, came.wait()).await.is_ok());
        drop((held, other));
        assert!(sent.seats.lock().is_empty() && came.seats.lock().is_empty(), "nothing is remembered");
    }

    #[tokio::test]
    async fn silent_connections_make_room() {
        let [places, _] = Places::both(64);
        let mut open = Vec::new();
        for _ in 0..48 {
            let place = places.wait().await;
            let task = silent_task();
            place.of_task()(task.clone());
            open.push((place, task));
        }
        places.end_silent(Duration::ZERO);
        assert!(open.iter().all(|(_, task)| !task.is_finished()), "all were in use within this second");
        for (number, (place, _)) in open.iter().enumerate() {
            place.seat.used.store(u32::try_from(number).unwrap(), Ordering::Relaxed);
        }
        let places = Places { begun: Instant::now() - Duration::from_secs(100), ..unshared(&places) };
        places.end_silent(SILENT);
        tokio::task::yield_now().await;
        let ended: Vec<bool> = open.iter().map(|(_, task)| task.is_finished()).collect();
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 48 / SHARE);
        assert!(ended[..48 / SHARE].iter().all(|ended| *ended), "those that were silent for longest");
    }

    /// The same seats, without those who hold them.
    fn unshared(places: &Places) -> Places {
        Places {
            own: places.own.clone(),
            all: places.all.clone(),
            most: places.most,
            seats: Mutex::new(places.seats.lock().clone()),
            next: AtomicU64::new(0),
            begun: places.begun,
        }
    }

    #[test]
    fn memory_is_that_of_the_container() {
        let check = |name: &str, text: &str, expected: u64| {
            let read = |path: &str| path.ends_with(name).then(|| text.to_owned());
            assert_eq!(memory(&read), expected, "{name} {text}");
        };
        check("memory.max", "134217728\n", 128 << 20);
        check("memory.max", "max\n", MOST_MEMORY);
        check("memory.limit_in_bytes", "67108864\n", 64 << 20);
        check("memory.limit_in_bytes", "9223372036854771712\n", MOST_MEMORY);
        check("nothing", "", USUAL_MEMORY);
    }
}
