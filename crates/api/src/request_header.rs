//! Front proxies that say in headers whose requests they pass on.

use http::HeaderName;

/// Whom to believe, and which headers say what. Who shows no certificate of these authorities is never believed.
#[derive(Debug, Clone, Default)]
pub struct RequestHeaderSettings {
    /// Certificates of the proxies' authorities, in DER.
    pub authorities: Vec<Vec<u8>>,
    /// Common names that a proxy may have; empty: any.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<HeaderName>,
    pub uid_headers: Vec<HeaderName>,
    pub group_headers: Vec<HeaderName>,
    /// In lower case.
    pub extra_prefixes: Vec<String>,
}
