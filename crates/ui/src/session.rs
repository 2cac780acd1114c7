//! One-time codes, and the sessions that they are exchanged for: a map with time, without any IO.
//!
//! A code travels in the fragment of a link: no server, log or `Referer` ever has it. It works once, for a minute. What
//! a session stands for is its owner's to say (`T`): who it is in the API server, nothing for a proxy of one user.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;

/// How long a link works.
pub const CODE_LIFETIME: Duration = Duration::from_secs(60);
/// A page that is open asks for something more often than this.
const IDLE: Duration = Duration::from_secs(30 * 60);
const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// More than anyone needs, and not more memory than anyone has.
const MOST: usize = 1000;

/// 256 random bits, as text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    fn random() -> Self {
        Secret(URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret(text.to_owned())
    }
}

pub struct Sessions<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    codes: HashMap<Secret, (T, Instant)>,
    sessions: HashMap<Secret, Session<T>>,
}

struct Session<T> {
    id: String,
    value: T,
    begun: Instant,
    seen: Instant,
}

/// A session as its owner sees it: not the secret that is its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<T> {
    pub id: String,
    pub value: T,
    pub age: Duration,
    pub idle: Duration,
}

impl<T> Default for Sessions<T> {
    fn default() -> Self {
        Sessions { state: Mutex::new(State { codes: HashMap::new(), sessions: HashMap::new() }) }
    }
}

impl<T: Clone> Sessions<T> {
    /// A code for a link; none where too many wait to be used.
    pub fn code(&self, value: T, now: Instant) -> Option<Secret> {
        let mut state = self.state.lock();
        state.forget(now);
        if state.codes.len() >= MOST {
            return None;
        }
        let code = Secret::random();
        state.codes.insert(code.clone(), (value, now));
        Some(code)
    }

    /// The session that a code opens: once.
    pub fn redeem(&self, code: &Secret, now: Instant) -> Option<Secret> {
        let mut state = self.state.lock();
        state.forget(now);
        let (value, _) = state.codes.remove(code)?;
        if state.sessions.len() >= MOST {
            return None;
        }
        let session = Secret::random();
        let id = Secret::random().0.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        state.sessions.insert(session.clone(), Session { id, value, begun: now, seen: now });
        Some(session)
    }

    pub fn find(&self, session: &Secret, now: Instant) -> Option<T> {
        let mut state = self.state.lock();
        state.forget(now);
        let session = state.sessions.get_mut(session)?;
        session.seen = now;
        Some(session.value.clone())
    }

    pub fn end(&self, session: &Secret) {
        self.state.lock().sessions.remove(session);
    }

    /// How many codes and sessions there are of a kind.
    pub fn count(&self, of: impl Fn(&T) -> bool, now: Instant) -> usize {
        let mut state = self.state.lock();
        state.forget(now);
        let codes = state.codes.values().filter(|(value, _)| of(value)).count();
        codes + state.sessions.values().filter(|session| of(&session.value)).count()
    }

    /// Those of a kind, the newest first.
    pub fn list(&self, of: impl Fn(&T) -> bool, now: Instant) -> Vec<Seen<T>> {
        let mut state = self.state.lock();
        state.forget(now);
        let found = state.sessions.values().filter(|session| of(&session.value)).map(|session| Seen {
            id: session.id.clone(),
            value: session.value.clone(),
            age: now.duration_since(session.begun),
            idle: now.duration_since(session.seen),
        });
        let mut found: Vec<Seen<T>> = found.collect();
        found.sort_by_key(|seen| seen.age);
        found
    }

    /// Ends a session of a kind by its id; says whether there was one.
    pub fn end_by_id(&self, id: &str, of: impl Fn(&T) -> bool) -> bool {
        let mut state = self.state.lock();
        let before = state.sessions.len();
        state.sessions.retain(|_, session| session.id != id || !of(&session.value));
        state.sessions.len() < before
    }

    pub fn id(&self, session: &Secret) -> Option<String> {
        self.state.lock().sessions.get(session).map(|session| session.id.clone())
    }
}

impl<T> State<T> {
    fn forget(&mut self, now: Instant) {
        self.codes.retain(|_, (_, made)| now.duration_since(*made) < CODE_LIFETIME);
        self.sessions.retain(|_, session| {
            now.duration_since(session.seen) < IDLE && now.duration_since(session.begun) < LONGEST
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_opens_one_session_within_its_minute() {
        let sessions = Sessions::default();
        let start = Instant::now();
        let code = sessions.code("jane", start).unwrap();
        let session = sessions.redeem(&code, start + Duration::from_secs(59)).unwrap();
        assert_eq!(sessions.find(&session, start + Duration::from_secs(60)), Some("jane"));
        assert!(sessions.redeem(&code, start).is_none(), "a code works once");
        let late = sessions.code("jane", start).unwrap();
        assert!(sessions.redeem(&late, start + CODE_LIFETIME).is_none(), "a code works for a minute");
        assert!(sessions.find(&"guess".into(), start).is_none());
    }

    #[test]
    fn session_ends_idle_old_or_by_request() {
        let sessions = Sessions::default();
        let start = Instant::now();
        let open = || sessions.redeem(&sessions.code((), start).unwrap(), start).unwrap();
        let idle = open();
        assert!(sessions.find(&idle, start + IDLE).is_none());
        let old = open();
        let mut now = start;
        while now < start + LONGEST - IDLE {
            now += IDLE / 2;
            assert!(sessions.find(&old, now).is_some());
        }
        assert!(sessions.find(&old, start + LONGEST).is_none());
        let ended = open();
        sessions.end(&ended);
        assert!(sessions.find(&ended, start).is_none());
    }

    #[test]
    fn sessions_are_listed_and_ended_by_id_and_kind() {
        let sessions = Sessions::default();
        let start = Instant::now();
        let open = |who| sessions.redeem(&sessions.code(who, start).unwrap(), start).unwrap();
        let (ann, bob) = (open("ann"), open("bob"));
        let [seen] = &sessions.list(|who| *who == "ann", start + IDLE / 2)[..] else {
            panic!("one of ann's")
        };
        assert_eq!((seen.value, seen.age, Some(&seen.id)), ("ann", IDLE / 2, sessions.id(&ann).as_ref()));
        assert!(!ann.as_str().contains(&seen.id), "an id tells nothing of the secret");
        assert!(!sessions.end_by_id(&seen.id, |who| *who == "bob"), "ann's session is not bob's to end");
        assert!(sessions.end_by_id(&seen.id, |who| *who == "ann"));
        assert!(sessions.find(&ann, start).is_none() && sessions.find(&bob, start).is_some());
        sessions.code("bob", start).unwrap();
        assert_eq!(sessions.count(|who| *who == "bob", start), 2);
    }

    #[test]
    fn codes_are_bounded() {
        let sessions = Sessions::default();
        let now = Instant::now();
        assert!((0..MOST).all(|_| sessions.code((), now).is_some()));
        assert!(sessions.code((), now).is_none());
        assert!(sessions.code((), now + CODE_LIFETIME).is_some());
    }
}
