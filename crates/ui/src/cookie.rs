//! One cookie among a request's, or an answer's.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};

/// The value of the cookie of that name.
pub fn find<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    all(headers).find_map(|cookie| {
        let (key, value) = cookie.split_once('=')?;
        (key == name).then_some(value)
    })
}

/// Takes the cookie of that name from a request; others stay.
pub fn remove(headers: &mut HeaderMap, name: &str) {
    if !headers.contains_key(COOKIE) {
        return;
    }
    let others: Vec<&str> =
        all(headers).filter(|cookie| cookie.split_once('=').is_none_or(|(key, _)| key != name)).collect();
    let others = HeaderValue::from_str(&others.join("; ")).ok().filter(|others| !others.is_empty());
    headers.remove(COOKIE);
    if let Some(others) = others {
        headers.insert(COOKIE, others);
    }
}

/// Takes what sets the cookie of that name from an answer; others stay. Browsers look at the name alone, whatever its bytes,
/// and send one without a name as its value, which may look like ours.
pub fn leave(headers: &mut HeaderMap, name: &str) {
    let sets = |value: &HeaderValue| {
        let pair = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let pair = pair.strip_prefix(b"=").unwrap_or(pair);
        let key = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        key.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
    };
    if !headers.get_all(SET_COOKIE).iter().any(sets) {
        return;
    }
    let others: Vec<HeaderValue> =
        headers.get_all(SET_COOKIE).iter().filter(|value| !sets(value)).cloned().collect();
    headers.remove(SET_COOKIE);
    for other in others {
        headers.append(SET_COOKIE, other);
    }
}

fn all(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(';')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cookie_is_found_and_removed() {
        let check = |lines: &[&str], found: Option<&str>, left: Option<&str>| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, line.parse().unwrap());
            }
            assert_eq!(find(&headers, "own"), found, "{lines:?}");
            remove(&mut headers, "own");
            assert_eq!(headers.get(COOKIE).map(|left| left.to_str().unwrap()), left, "{lines:?}");
        };
        check(&[], None, None);
        check(&["own=1"], Some("1"), None);
        check(&["a=b; own=1; c=d"], Some("1"), Some("a=b; c=d"));
        check(&["a=b", "own=1"], Some("1"), Some("a=b"));
        check(&["known=1; own1=2"], None, Some("known=1; own1=2"));
        check(&["own=1; own=2"], Some("1"), None);
    }

    #[test]
    fn answer_of_others_sets_no_cookie_of_ours() {
        let check = |lines: &[&[u8]], left: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(SET_COOKIE, HeaderValue::from_bytes(line).unwrap());
            }
            leave(&mut headers, "own");
            let lines: Vec<&str> =
                headers.get_all(SET_COOKIE).iter().map(|line| line.to_str().unwrap()).collect();
            assert_eq!(lines, left);
        };
        check(&[], &[]);
        check(&[b"own=1; Path=/; Secure"], &[]);
        check(&[b"a=own; own=1", b"own=1", b"known=1"], &["a=own; own=1", "known=1"]);
        check(&[b" own =\xff", b"OWN=1", b"own", b"own;a=b"], &[]);
        check(&[b"=own=1", b" = own=1;a=b", b"=a=own"], &["=a=own"]);
    }
}
