//! Answers of others that an autoscaler goes by: asked for when it looks, kept for a moment, so that no plan waits for a
//! request. It never asks by itself, and forgets what nobody looks at any more.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kube::Client;
use minik8s_runtime::Key;
use parking_lot::Mutex;

/// Questions that nobody has asked for so long are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Who is to look again.
pub type Wake = Arc<dyn Fn(Key) + Send + Sync>;

/// By the question, what was answered.
pub struct AnswerCache<Q, A> {
    client: Option<Client>,
    /// So old an answer may be; the next look asks anew.
    fresh: Duration,
    known: Arc<Mutex<HashMap<Q, Known<A>>>>,
    wake: OnceLock<Wake>,
}

#[derive(Clone)]
struct Known<A> {
    asked: Instant,
    answer: Option<A>,
}

impl<Q: Clone + Eq + Hash + Send + 'static, A: Clone + PartialEq + Send + 'static> AnswerCache<Q, A> {
    /// Without a client nothing is ever known, as in tests.
    pub fn new(client: Option<Client>, fresh: Duration) -> Self {
        AnswerCache { client, fresh, known: Arc::default(), wake: OnceLock::new() }
    }

    /// Who is to hear of answers that differ from the ones before.
    pub fn tell(&self, wake: Wake) {
        let _ = self.wake.set(wake);
    }

    /// The last answer. None: it is being asked for the first time, and the autoscaler is woken with it.
    pub fn find<F>(&self, autoscaler: &Key, question: Q, ask: impl FnOnce(Client, Q) -> F) -> Option<A>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut known = self.known.lock();
        let before = known.get(&question).cloned();
        let is_fresh = before.as_ref().is_some_and(|known| known.asked.elapsed() < self.fresh);
        let answer = before.and_then(|known| known.answer);
        if !is_fresh {
            known.retain(|_, known| known.asked.elapsed() < FORGOTTEN);
            known.insert(question.clone(), Known { asked: Instant::now(), answer: answer.clone() });
            drop(known);
            self.ask(question, autoscaler.clone(), ask);
        }
        answer
    }

    fn ask<F>(&self, question: Q, autoscaler: Key, ask: impl FnOnce(Client, Q) -> F)
    where
        F: Future<Output = A> + Send + 'static,
    {
        let Some(client) = self.client.clone() else { return };
        let (known, wake) = (self.known.clone(), self.wake.get().cloned());
        let answer = ask(client, question.clone());
        tokio::spawn(async move {
            let answer = answer.await;
            let changed = match known.lock().get_mut(&question) {
                Some(entry) if entry.answer.as_ref() != Some(&answer) => {
                    entry.answer = Some(answer);
                    true
                }
                _ => false,
            };
            if let Some(wake) = wake.filter(|_| changed) {
                wake(autoscaler);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answer_is_asked_for_once_and_wakes_when_it_differs() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let cache = AnswerCache::new(Some(client), Duration::from_secs(3600));
        let (asked, woken) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let of_wake = woken.clone();
        cache.tell(Arc::new(move |key| {
            assert_eq!(key, Key::new("ns", "hpa"));
            of_wake.fetch_add(1, Ordering::Relaxed);
        }));
        let look = || {
            let asked = asked.clone();
            cache.find(&Key::new("ns", "hpa"), "how many", move |_, question| async move {
                asked.fetch_add(1, Ordering::Relaxed);
                format!("{question}: 3")
            })
        };
        assert_eq!(look(), None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((look().as_deref(), look().as_deref()), (Some("how many: 3"), Some("how many: 3")));
        assert_eq!((asked.load(Ordering::Relaxed), woken.load(Ordering::Relaxed)), (1, 1));
    }

    #[tokio::test]
    async fn without_a_client_nothing_is_ever_known() {
        let cache = AnswerCache::<_, u32>::new(None, Duration::ZERO);
        for _ in 0..2 {
            assert_eq!(cache.find(&Key::new("ns", "hpa"), 1, |_, _| async { 1 }), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stale_answer_is_given_while_it_is_asked_for_anew() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let cache = AnswerCache::new(Some(client), Duration::ZERO);
        let next = Arc::new(AtomicU32::new(0));
        let mut seen = Vec::new();
        for _ in 0..3 {
            let next = next.clone();
            let ask = move |_: Client, ()| async move { next.fetch_add(1, Ordering::Relaxed) };
            seen.push(cache.find(&Key::new("ns", "hpa"), (), ask));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(seen, [None, Some(0), Some(1)]);
    }
}
