//! Keeps other name servers' answers as long as they say.
//!
//! An answer is kept byte by byte for a question that is the same byte by byte (but for its number): nothing
//! has to be understood or put together again, and what one client asks never changes what another gets.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Answer;

/// Old answers give way to new ones; memory stays below some megabytes.
const MOST: usize = 4096;
/// However long they say: names move.
const LONGEST: u32 = 300;
const ID: usize = 2;

#[derive(Debug, Default)]
pub struct Cache(Mutex<HashMap<(Vec<u8>, bool), Kept>>);

#[derive(Debug)]
struct Kept {
    message: Vec<u8>,
    times: Vec<(usize, u32)>,
    since: Instant,
    until: Instant,
}

impl Cache {
    /// The answer that was kept for this question, as of now.
    pub fn get(&self, question: &[u8], udp: bool, now: Instant) -> Option<Vec<u8>> {
        let key = (question.get(ID..)?.to_vec(), udp);
        let kept = self.0.lock();
        let found = kept.get(&key).filter(|kept| kept.until > now)?;
        let mut message = found.message.clone();
        message[..ID].copy_from_slice(&question[..ID]);
        let age = now.duration_since(found.since).as_secs() as u32;
        for &(at, ttl) in &found.times {
            message[at..at + 4].copy_from_slice(&ttl.saturating_sub(age).to_be_bytes());
        }
        Some(message)
    }

    pub fn put(&self, question: &[u8], udp: bool, message: &[u8], now: Instant) {
        let Some(answer) = Answer::read(message) else { return };
        let (Some(lifetime), Some(question)) = (answer.lifetime, question.get(ID..)) else { return };
        let until = now + Duration::from_secs(lifetime.min(LONGEST).into());
        let mut kept = self.0.lock();
        if kept.len() >= MOST {
            kept.retain(|_, kept| kept.until > now);
            if kept.len() >= MOST {
                kept.clear();
            }
        }
        let entry = Kept { message: message.to_vec(), times: answer.times, since: now, until };
        kept.insert((question.to_vec(), udp), entry);
    }
}
