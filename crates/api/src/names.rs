//! What an object may be called.

/// The rule that `metadata.name` of a kind follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    #[default]
    Subdomain,
    /// RFC 1123 label: namespaces.
    Label,
    /// RFC 1035 label: services.
    Label1035,
    /// Anything that fits into one path segment: RBAC kinds.
    PathSegment,
}
