//! What a webhook said, for a while. Questions are known by their digest: whoever reads this memory finds no token.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};

pub struct VerdictCache<T> {
    known: Mutex<HashMap<Vec<u8>, (Instant, T)>>,
    most: usize,
}

impl<T: Clone> VerdictCache<T> {
    /// At most so many answers.
    pub fn new(most: usize) -> Self {
        VerdictCache { known: Mutex::default(), most }
    }

    pub fn get(&self, question: &str) -> Option<T> {
        let known = self.known.lock();
        let found = known.get(&key(question)).filter(|(until, _)| *until > Instant::now());
        found.map(|(_, answer)| answer.clone())
    }

    pub fn put(&self, question: &str, answer: T, span: Duration) {
        let now = Instant::now();
        let Some(until) = now.checked_add(span).filter(|_| !span.is_zero()) else { return };
        let mut known = self.known.lock();
        if known.len() >= self.most {
            known.retain(|_, (until, _)| *until > now);
            if known.len() >= self.most {
                known.clear();
            }
        }
        known.insert(key(question), (until, answer));
    }
}

fn key(question: &str) -> Vec<u8> {
    digest(&SHA256, question.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bounded_in_time_and_number() {
        let cache = VerdictCache::new(2);
        cache.put("a", 1, Duration::from_secs(60));
        cache.put("b", 2, Duration::ZERO);
        assert_eq!((cache.get("a"), cache.get("b")), (Some(1), None));
        for question in ["c", "d", "e", "f"] {
            cache.put(question, 3, Duration::from_secs(60));
            assert!(cache.known.lock().len() <= 2);
            assert_eq!(cache.get(question), Some(3));
        }
    }
}
