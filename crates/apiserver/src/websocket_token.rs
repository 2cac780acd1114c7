//! The bearer token of a WebSocket. Browsers can set no header there but the protocols that they offer; Kubernetes' own
//! servers look for a token among them, and so do we. Nobody further on gets to see it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The token that an upgrade to a WebSocket offers, removed from what it offers. Another protocol must remain: the answer
/// names one of them, and must not name the token.
pub fn take(headers: &mut HeaderMap) -> Option<String> {
    let upgrades = headers.get(UPGRADE).is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if !upgrades || headers.contains_key(AUTHORIZATION) {
        return None;
    }
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        offered.flat_map(|line| line.split(',')).map(str::trim).partition(|offer| offer.starts_with(PREFIX));
    let [token] = tokens[..] else { return None };
    let token = String::from_utf8(URL_SAFE_NO_PAD.decode(&token[PREFIX.len()..]).ok()?).ok()?;
    let others = HeaderValue::from_str(&others.join(", ")).ok().filter(|others| !others.is_empty())?;
    headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_taken_from_the_offered_protocols() {
        let check = |upgrade: &str, offered: &str, token: Option<&str>, left: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, upgrade.parse().unwrap());
            headers.insert(SEC_WEBSOCKET_PROTOCOL, offered.parse().unwrap());
            assert_eq!(take(&mut headers).as_deref(), token, "{offered}");
            assert_eq!(headers[SEC_WEBSOCKET_PROTOCOL], left, "{offered}");
        };
        let own = format!("{PREFIX}c2VjcmV0");
        let both = format!("v5.channel.k8s.io, {own}");
        check("websocket", &both, Some("secret"), "v5.channel.k8s.io");
        check("WebSocket", &format!("{own},a, b"), Some("secret"), "a, b");
        check("SPDY/3.1", &both, None, &both);
        check("websocket", &own, None, &own);
        check("websocket", "v5.channel.k8s.io", None, "v5.channel.k8s.io");
        let twice = format!("a, {own}, {own}");
        check("websocket", &twice, None, &twice);
        let broken = format!("a, {PREFIX}***");
        check("websocket", &broken, None, &broken);
    }

    #[test]
    fn authorization_header_comes_first() {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, "websocket".parse().unwrap());
        headers.insert(AUTHORIZATION, "Bearer other".parse().unwrap());
        headers.insert(SEC_WEBSOCKET_PROTOCOL, format!("a, {PREFIX}c2VjcmV0").parse().unwrap());
        assert_eq!(take(&mut headers), None);
    }
}
