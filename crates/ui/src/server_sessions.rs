//! Sessions at the API server's own door: opened with a credential of the cluster, by way of a code that works once.
//!
//! A session has no rights of its own. It keeps the token that opened it, which is verified with every request, or whom a
//! certificate named, until that ends. Kept in memory: a server that starts anew knows none.

use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use minik8s_api::{BrowserSession, BrowserSessions, Credential, SessionLimits};

use crate::session::{Secret, Seen, Sessions};
use crate::{cookie, same_origin};

/// The prefix makes browsers keep it to this host, to HTTPS, and from pages that set cookies for others.
pub const COOKIE_NAME: &str = "__Host-minik8s";
/// Would take it away.
const CLEAR_SITE_DATA: &str = "clear-site-data";
/// Of one user, so that nobody keeps others out.
const MOST_OF_ONE: usize = 50;

/// What a code or a session stands for.
#[derive(Debug, Clone)]
pub struct Grant {
    pub user: String,
    pub credential: Credential,
    pub limits: SessionLimits,
    /// When it ends at the latest.
    pub ends: Option<Instant>,
}

#[derive(Default)]
pub struct ServerSessions {
    sessions: Sessions<Grant>,
}

impl ServerSessions {
    /// A code for a link; none where its user has too many already.
    pub fn code(&self, grant: Grant, now: Instant) -> Option<Secret> {
        let of_user = self.sessions.count(|other| other.user == grant.user, now);
        if of_user >= MOST_OF_ONE { None } else { self.sessions.code(grant, now) }
    }

    pub fn redeem(&self, code: &str, now: Instant) -> Option<Secret> {
        self.sessions.redeem(&code.into(), now)
    }

    /// The session of a request's cookie, whoever made the browser send it.
    pub fn current(&self, headers: &HeaderMap, now: Instant) -> Option<(Secret, Grant)> {
        let secret = Secret::from(cookie::find(headers, COOKIE_NAME)?);
        let grant = self.sessions.find(&secret, now)?;
        if grant.ends.is_some_and(|ends| now >= ends) {
            self.sessions.end(&secret);
            return None;
        }
        Some((secret, grant))
    }

    pub fn end(&self, session: &Secret) {
        self.sessions.end(session);
    }

    pub fn id(&self, session: &Secret) -> Option<String> {
        self.sessions.id(session)
    }

    /// A user's own; everybody's for those who may do everything.
    pub fn list(&self, user: &str, is_master: bool, now: Instant) -> Vec<Seen<Grant>> {
        self.sessions.list(|grant| is_master || grant.user == user, now)
    }

    pub fn end_by_id(&self, id: &str, user: &str, is_master: bool) -> bool {
        self.sessions.end_by_id(id, |grant| is_master || grant.user == user)
    }
}

impl BrowserSessions for ServerSessions {
    fn find(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<BrowserSession> {
        if !same_origin::is_own(method, path, headers, "https") {
            return None;
        }
        let (_, grant) = self.current(headers, Instant::now())?;
        Some(BrowserSession { credential: grant.credential, limits: grant.limits })
    }

    fn hide(&self, headers: &mut HeaderMap) {
        cookie::remove(headers, COOKIE_NAME);
    }

    fn protect(&self, headers: &mut HeaderMap) {
        cookie::leave(headers, COOKIE_NAME);
        headers.remove(CLEAR_SITE_DATA);
    }
}

/// How long a session may last, in words of people: `90s`, `30m`, `8h`.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(seconds).filter(|time| *time > 0).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(user: &str, ends: Option<Instant>) -> Grant {
        let credential = Credential::Token("secret".to_owned());
        Grant { user: user.to_owned(), credential, limits: SessionLimits::default(), ends }
    }

    fn headers(session: &Secret, more: &[(&str, &str)]) -> HeaderMap {
        let cookie = format!("{COOKIE_NAME}={}", session.as_str());
        let all = [("cookie", cookie.as_str()), ("host", "10.0.0.1:6443")];
        let all = all.iter().chain(more);
        all.map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn cookie_counts_for_our_own_page_and_never_for_pods_pages() {
        let sessions = ServerSessions::default();
        let now = Instant::now();
        let code = sessions.code(grant("ann", None), now).unwrap();
        let session = sessions.redeem(code.as_str(), now).unwrap();
        let check = |method: Method, path: &str, more: &[(&str, &str)], expected: bool| {
            let found = sessions.find(&method, path, &headers(&session, more));
            assert_eq!(found.is_some(), expected, "{method} {path} {more:?}");
        };
        let own = ("sec-fetch-site", "same-origin");
        let upgrade = ("upgrade", "websocket");
        let exec = "/api/v1/namespaces/a/pods/b/exec";
        check(Method::GET, "/api/v1/pods", &[own], true);
        check(Method::POST, "/api/v1/namespaces/a/pods", &[own], false);
        check(Method::POST, "/api/v1/namespaces/a/pods", &[own, ("x-minik8s-ui", "1")], true);
        check(Method::GET, "/api/v1/pods", &[("sec-fetch-site", "cross-site")], false);
        check(Method::GET, "/api/v1/pods", &[], false);
        check(Method::GET, exec, &[upgrade, ("origin", "https://10.0.0.1:6443")], true);
        check(Method::GET, exec, &[upgrade, ("origin", "https://evil.example")], false);
        check(Method::GET, exec, &[upgrade, ("origin", "https://10.0.0.1:30443")], false);
        check(Method::GET, exec, &[upgrade, ("origin", "null")], false);
        check(Method::GET, "/api/v1/namespaces/a/pods/b/proxy/", &[own], false);
        check(Method::GET, "/api/v1/namespaces/a/services/b/proxy/x", &[own], false);
    }

    #[test]
    fn session_ends_with_its_certificate() {
        let sessions = ServerSessions::default();
        let now = Instant::now();
        let ends = Some(now + Duration::from_secs(10));
        let code = sessions.code(grant("ann", ends), now).unwrap();
        let session = sessions.redeem(code.as_str(), now).unwrap();
        let headers = headers(&session, &[]);
        assert!(sessions.current(&headers, now + Duration::from_secs(9)).is_some());
        assert!(sessions.current(&headers, now + Duration::from_secs(10)).is_none());
        assert!(sessions.current(&headers, now).is_none(), "it has ended for good");
    }

    #[test]
    fn one_user_keeps_nobody_else_out() {
        let sessions = ServerSessions::default();
        let now = Instant::now();
        assert!((0..MOST_OF_ONE).all(|_| sessions.code(grant("mallory", None), now).is_some()));
        assert!(sessions.code(grant("mallory", None), now).is_none());
        assert!(sessions.code(grant("ann", None), now).is_some());
    }

    #[test]
    fn durations_are_read() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(duration(text).map(|d| d.as_secs()), expected, "{text}")
        };
        check("90s", Some(90));
        check("30m", Some(1800));
        check("8h", Some(28800));
        for bad in ["", "h", "0h", "-1h", "1d", "99999999999999999999h", "1.5h"] {
            check(bad, None);
        }
    }
}
