//! Which requests a cookie may speak for: a browser sends cookies along whoever made it ask.
//!
//! Only what our own page asks for counts. Foreign pages, other ports of this machine, and pages that pods serve through
//! the API server's proxy (our origin, their content) do not.

use http::header::{HOST, HeaderMap, ORIGIN};
use http::{HeaderName, Method};

/// What the page adds to its writes; a form of another site cannot.
pub const WRITE_HEADER: HeaderName = HeaderName::from_static("x-minik8s-ui");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether our own page made the browser send this. `scheme` is how the page was loaded.
pub fn is_own(method: &Method, path: &str, headers: &HeaderMap, scheme: &str) -> bool {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("-"));
    let host = text(&HOST).unwrap_or_default();
    let site = text(&FETCH_SITE).map(|site| site == "same-origin");
    let origin = text(&ORIGIN).map(|origin| origin.strip_prefix(&format!("{scheme}://")) == Some(host));
    // What is said must be true, and one of the two must be said: browsers do.
    let is_ours = site.unwrap_or(true) && origin.unwrap_or(true) && (site.is_some() || origin.is_some());
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    is_ours && (reads || headers.contains_key(WRITE_HEADER)) && !is_proxied(path)
}

/// `…/pods/x/proxy/…` and the like: what comes back is a page of a pod.
pub fn is_proxied(path: &str) -> bool {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let mut previous = ["", ""];
    segments.any(|segment| {
        let names_proxy = segment.contains('%') || segment == "proxy";
        let found = names_proxy && matches!(previous[0], "pods" | "services" | "nodes");
        previous = [previous[1], segment];
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_count_only_for_our_own_page() {
        let check = |method: Method, headers: &[(&str, &str)], expected: bool| {
            let mut map: HeaderMap = headers
                .iter()
                .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
                .collect();
            map.insert(HOST, "10.0.0.1:6443".parse().unwrap());
            assert_eq!(is_own(&method, "/api/v1/pods", &map, "https"), expected, "{method} {headers:?}");
        };
        check(Method::GET, &[("sec-fetch-site", "same-origin")], true);
        check(Method::GET, &[("origin", "https://10.0.0.1:6443")], true);
        check(Method::GET, &[], false);
        check(Method::GET, &[("sec-fetch-site", "same-site")], false);
        check(Method::GET, &[("sec-fetch-site", "none")], false);
        check(Method::GET, &[("origin", "https://10.0.0.1:8443")], false);
        check(Method::GET, &[("origin", "http://10.0.0.1:6443")], false);
        check(Method::GET, &[("origin", "null")], false);
        check(Method::GET, &[("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")], false);
        check(Method::POST, &[("sec-fetch-site", "same-origin")], false);
        check(Method::POST, &[("sec-fetch-site", "same-origin"), ("x-minik8s-ui", "1")], true);
        check(Method::DELETE, &[("sec-fetch-site", "cross-site"), ("x-minik8s-ui", "1")], false);
    }

    #[test]
    fn pages_of_pods_are_never_ours() {
        let check = |path: &str, expected: bool| assert_eq!(is_proxied(path), expected, "{path}");
        check("/api/v1/namespaces/default/pods/web/proxy/", true);
        check("/api/v1/namespaces/default/pods/web/proxy", true);
        check("/api/v1/namespaces/default/services/https:web:443/proxy/a/b", true);
        check("/api/v1/nodes/n1/proxy/metrics", true);
        check("/api/v1//namespaces/default/pods/web//proxy/", true);
        check("/api/v1/namespaces/default/pods/web/%70roxy/", true);
        check("/api/v1/namespaces/default/services/proxy", false);
        check("/api/v1/namespaces/proxy/pods", false);
        check("/api/v1/namespaces/default/pods/web/log", false);
        check("/apis/apps/v1/namespaces/default/deployments/proxy", false);
    }
}
