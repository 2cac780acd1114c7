//! A disk in memory that remembers what has not been synced, and that breaks when told to.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use redb::StorageBackend;

/// Disks write this much at once or not at all.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
pub(super) struct SimulatedDisk {
    state: Mutex<State>,
    gate: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What a reader sees.
    current: Vec<u8>,
    /// What is safe.
    synced: Vec<u8>,
    unsynced: Vec<Unsynced>,
    syncs: usize,
    operations: usize,
    fail: Option<Failure>,
    syncs_blocked: bool,
    /// Someone waits for a blocked sync.
    is_waiting: bool,
}

#[derive(Debug)]
enum Unsynced {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    /// Writing operations that still work.
    pub(super) after: usize,
    pub(super) how_many: usize,
    /// Whether the operation is done all the same.
    pub(super) lies: bool,
}

impl SimulatedDisk {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn handle(self: &Arc<Self>) -> Handle {
        Handle(self.clone())
    }

    pub(super) fn fail(&self, failure: Failure) {
        let mut state = self.state.lock();
        state.operations = 0;
        state.fail = Some(failure);
    }

    /// Returns whether it had failed at all.
    pub(super) fn heal(&self) -> bool {
        let mut state = self.state.lock();
        state.fail.take().is_some_and(|failure| state.operations > failure.after)
    }

    pub(super) fn block_syncs(&self, blocked: bool) {
        self.state.lock().syncs_blocked = blocked;
        self.gate.notify_all();
    }

    /// Waits until a sync is blocked.
    pub(super) async fn until_blocked(&self) {
        while !self.state.lock().is_waiting {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(super) fn syncs(&self) -> usize {
        self.state.lock().syncs
    }

    /// The disk as it may be after a power cut now: of what was not synced, any sectors may be there.
    pub(super) fn after_power_cut(&self, mut survives: impl FnMut() -> bool) -> Arc<SimulatedDisk> {
        let state = self.state.lock();
        let mut bytes = state.synced.clone();
        state.unsynced.iter().for_each(|unsynced| unsynced.apply(&mut bytes, &mut survives));
        let disk = SimulatedDisk::new();
        *disk.state.lock() = State { current: bytes.clone(), synced: bytes, ..State::default() };
        disk
    }
}

impl Unsynced {
    /// Does it, as far as its sectors survive.
    fn apply(&self, bytes: &mut Vec<u8>, mut survives: impl FnMut() -> bool) {
        match self {
            Unsynced::Length(length) if survives() => bytes.resize(*length as usize, 0),
            Unsynced::Length(_) => {}
            Unsynced::Write(offset, data) => {
                for (number, sector) in data.chunks(SECTOR).enumerate() {
                    let start = *offset as usize + number * SECTOR;
                    if survives() && start + sector.len() <= bytes.len() {
                        bytes[start..start + sector.len()].copy_from_slice(sector);
                    }
                }
            }
        }
    }
}

impl State {
    /// Counts a writing operation and says whether to do it and what to answer.
    fn operation(&mut self) -> (bool, io::Result<()>) {
        self.operations += 1;
        match self.fail {
            Some(failure)
                if self.operations > failure.after && self.operations <= failure.after + failure.how_many =>
            {
                (failure.lies, Err(io::Error::new(io::ErrorKind::StorageFull, "the simulated disk is full")))
            }
            _ => (true, Ok(())),
        }
    }
}

#[derive(Debug)]
pub(super) struct Handle(Arc<SimulatedDisk>);

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.state.lock().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.state.lock();
        let start = offset as usize;
        let found = state.current.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.0.state.lock();
        let (done, answer) = state.operation();
        if done {
            state.current.resize(length as usize, 0);
            state.unsynced.push(Unsynced::Length(length));
        }
        answer
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.state.lock();
        while state.syncs_blocked {
            state.is_waiting = true;
            self.0.gate.wait(&mut state);
        }
        state.is_waiting = false;
        let (done, answer) = state.operation();
        if done {
            state.syncs += 1;
            for unsynced in std::mem::take(&mut state.unsynced) {
                unsynced.apply(&mut state.synced, || true);
            }
        }
        answer
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.state.lock();
        let (done, answer) = state.operation();
        let start = offset as usize;
        if done {
            let end = start + data.len();
            state.current.get_mut(start..end).ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
            state.unsynced.push(Unsynced::Write(offset, data.to_vec()));
        }
        answer
    }
}
