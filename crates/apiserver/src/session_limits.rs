//! What a narrowed session of a browser may ask for, whatever its user may: reading, in one namespace. Pure; RBAC is asked
//! besides.

use minik8s_api::SessionLimits;

use crate::error::{ApiError, Result};
use crate::request::RequestInfo;

/// Connections into pods, and what they answer with: none of it is reading.
const CONNECTIONS: &[&str] = &["exec", "attach", "portforward", "proxy", "ephemeralcontainers", "token"];

/// Questions that are created to be answered, about nobody but oneself.
const QUESTIONS: &[&str] = &["selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"];

/// Lets a request of a session through, or says which limit it meets.
pub fn check(limits: &SessionLimits, info: &RequestInfo) -> Result<()> {
    let refuse = |why: &str| {
        Err(ApiError::forbidden(None, &info.name, format!("this session {why}: log in again for more")))
    };
    let is_question = info.is_resource && QUESTIONS.contains(&info.resource.as_str());
    if is_question {
        return Ok(());
    }
    if limits.read_only {
        let reads = matches!(info.verb.as_str(), "get" | "list" | "watch" | "head");
        if !reads || CONNECTIONS.contains(&info.subresource.as_str()) {
            return refuse("may only read");
        }
        if info.group.is_empty() && info.resource == "secrets" {
            return refuse("does not see Secrets");
        }
    }
    if limits.namespace.is_empty() || !info.is_resource {
        return Ok(());
    }
    let is_inside = info.namespace == limits.namespace;
    if is_inside { Ok(()) } else { refuse(&format!("sees the namespace {} only", limits.namespace)) }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::Query;

    #[test]
    fn narrow_session_reads_its_namespace_and_nothing_else() {
        let check = |read_only: bool, namespace: &str, asked: &str, expected: bool| {
            let (method, path) = asked.split_once(' ').unwrap();
            let method: Method = method.parse().unwrap();
            let info = RequestInfo::parse(&method, path, &Query::parse(None));
            let limits = SessionLimits { read_only, namespace: namespace.to_owned() };
            assert_eq!(check(&limits, &info).is_ok(), expected, "{read_only} {namespace:?} {asked}");
        };
        for allowed in [
            "GET /api/v1/namespaces/shop/pods",
            "GET /api/v1/namespaces/shop/pods/web/log",
            "GET /version",
            "GET /apis",
            "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        ] {
            check(true, "", allowed, true);
            check(true, "shop", allowed, true);
        }
        for refused in [
            "POST /api/v1/namespaces/shop/pods",
            "PATCH /api/v1/namespaces/shop/pods/web",
            "DELETE /api/v1/namespaces/shop/pods/web",
            "DELETE /api/v1/namespaces/shop/pods",
            "PUT /api/v1/namespaces/shop/pods/web/status",
            "GET /api/v1/namespaces/shop/pods/web/exec",
            "POST /api/v1/namespaces/shop/pods/web/exec",
            "GET /api/v1/namespaces/shop/pods/web/attach",
            "GET /api/v1/namespaces/shop/pods/web/portforward",
            "GET /api/v1/namespaces/shop/services/web/proxy/",
            "POST /api/v1/namespaces/shop/serviceaccounts/me/token",
            "GET /api/v1/namespaces/shop/secrets",
            "GET /api/v1/namespaces/shop/secrets/key",
            "GET /api/v1/secrets",
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
        ] {
            check(true, "", refused, false);
            check(true, "shop", refused, false);
        }
        for elsewhere in [
            "GET /api/v1/pods",
            "GET /api/v1/nodes",
            "GET /api/v1/namespaces/other/pods",
            "GET /api/v1/namespaces",
        ] {
            check(true, "", elsewhere, true);
            check(false, "shop", elsewhere, false);
        }
        check(false, "", "DELETE /api/v1/namespaces/shop", true);
        check(false, "shop", "DELETE /api/v1/namespaces/shop/pods/web", true);
    }
}
