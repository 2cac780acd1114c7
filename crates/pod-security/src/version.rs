//! As of which release of Kubernetes a policy is read: controls were added and relaxed over the years.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    Latest,
    /// `v1.N`.
    Minor(u64),
}

impl Version {
    /// `latest` or `v1.N`, as upstream's pattern has it: no leading zeros, no sign.
    pub fn parse(text: &str) -> Option<Version> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let canonical = digits == "0" || !digits.starts_with('0');
        if !canonical || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Upstream holds it in a signed number.
        digits.parse::<i64>().ok().and_then(|minor| u64::try_from(minor).ok()).map(Version::Minor)
    }

    /// The minor version to evaluate where `newest` is the last one that changed anything.
    pub(crate) fn minor(self, newest: u64) -> u64 {
        match self {
            Version::Latest => newest,
            Version::Minor(minor) => minor.min(newest),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Latest => f.write_str("latest"),
            Version::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_parse_takes_upstreams_pattern_only() {
        let cases = [
            ("latest", Some(Version::Latest)),
            ("v1.0", Some(Version::Minor(0))),
            ("v1.37", Some(Version::Minor(37))),
            ("v1.9223372036854775807", Some(Version::Minor(i64::MAX as u64))),
            ("v1.9223372036854775808", None),
            ("v1.", None),
            ("v1.01", None),
            ("v1.+1", None),
            ("v1.-1", None),
            ("v1.1.0", None),
            ("v2.0", None),
            ("1.20", None),
            ("V1.20", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Version::parse(text), expected, "{text:?}");
        }
    }
}
