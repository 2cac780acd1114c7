//! Who bears a token that is none of the cluster's own: others know, and the API server asks them.

use std::collections::BTreeMap;

use async_trait::async_trait;

/// Somebody who knows tokens.
#[async_trait]
pub trait TokenAuthenticator: Send + Sync {
    /// Who bears the token, asked for as good for one of these audiences; or why it is refused. None if the token is not
    /// of the kind that it knows.
    async fn authenticate(&self, token: &str, audiences: &[String]) -> Option<Result<TokenUser, String>>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenUser {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
    /// What the token was found good for; empty: for the API server.
    pub audiences: Vec<String>,
}

/// Where requests without any credential are `system:anonymous`'s.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnonymousRules {
    pub enabled: bool,
    /// Just these paths; empty: all.
    pub paths: Vec<String>,
}

impl AnonymousRules {
    pub fn allow(&self, path: &str) -> bool {
        self.enabled && (self.paths.is_empty() || self.paths.iter().any(|own| own == path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_rules_hold_for_whole_paths() {
        let check = |enabled: bool, paths: &[&str], path: &str, expected: bool| {
            let paths = paths.iter().map(|&path| path.to_owned()).collect();
            assert_eq!(AnonymousRules { enabled, paths }.allow(path), expected, "{path}");
        };
        check(true, &[], "/api", true);
        check(false, &[], "/api", false);
        check(true, &["/livez", "/readyz"], "/readyz", true);
        check(true, &["/livez"], "/livez/etcd", false);
        check(true, &["/livez"], "/livez/../api", false);
        check(true, &["/livez"], "/", false);
    }
}
