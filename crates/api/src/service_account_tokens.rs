//! Options of the tokens of service accounts.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceAccountTokens {
    /// The first signs, all are accepted; empty: the cluster's own name.
    pub issuers: Vec<String>,
    /// Audiences that mean the API server; empty: the issuers.
    pub api_audiences: Vec<String>,
    pub max_expiration_seconds: Option<i64>,
    /// Tokens of pods end when they say so, not a year later.
    pub is_not_extended: bool,
}
