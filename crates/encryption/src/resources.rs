//! Which resources an entry of the configuration is about: `secrets`, `deployments.apps`, `*.apps`, `*.` (the core
//! group) or `*.*`. Pure.

use std::fmt;

/// `/registry/GROUP/RESOURCE/…` is where objects are, with this for the group without a name.
const ROOT: &str = "/registry/";
const CORE: &str = "core";

/// One name or wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// None: every resource of the group.
    resource: Option<String>,
    /// None: every group.
    group: Option<String>,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, &'static str> {
        let (resource, group) = match text {
            "*.*" => return Ok(Pattern { resource: None, group: None }),
            "*" => return Err("use *.* for all resources, or *. for those of the core group"),
            _ => text.split_once('.').unwrap_or((text, "")),
        };
        if text.contains('/') {
            return Err("name a resource, not a subresource");
        }
        if resource.is_empty() {
            return Err("name a resource");
        }
        if group.contains('*') || (resource.contains('*') && resource != "*") {
            return Err("a wildcard is *.GROUP, *. or *.*");
        }
        if resource.chars().any(|c| c.is_ascii_uppercase()) || group.chars().any(|c| c.is_ascii_uppercase()) {
            return Err("resource and group are written in lower case");
        }
        if group == "extensions" {
            return Err("the group extensions is gone; use apps, networking.k8s.io or policy");
        }
        let resource = (resource != "*").then(|| resource.to_owned());
        Ok(Pattern { resource, group: Some(group.to_owned()) })
    }

    pub fn matches(&self, resource: &Place<'_>) -> bool {
        self.resource.as_deref().is_none_or(|own| own == resource.resource)
            && self.group.as_deref().is_none_or(|own| own == resource.group)
    }

    /// Whether everything that the other is about is this one's too.
    pub fn covers(&self, other: &Pattern) -> bool {
        let whole = |own: &Option<String>, other: &Option<String>| own.is_none() || own == other;
        whole(&self.resource, &other.resource) && whole(&self.group, &other.group)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = self.resource.as_deref().unwrap_or("*");
        match (self.group.as_deref(), &self.resource) {
            (None, _) => write!(f, "{resource}.*"),
            (Some(""), Some(_)) => write!(f, "{resource}"),
            (Some(group), _) => write!(f, "{resource}.{group}"),
        }
    }
}

/// The resource whose object is at a key of the store.
#[derive(Debug, PartialEq, Eq)]
pub struct Place<'a> {
    group: &'a str,
    resource: &'a str,
}

/// The cluster's own keys are as good as Secrets, and lie where no resource does.
pub const IDENTITY: &str = "/minik8s/identity";

impl<'a> Place<'a> {
    /// None for what is no object.
    pub fn of(key: &'a str) -> Option<Place<'a>> {
        if key == IDENTITY {
            return Some(Place { group: "", resource: "secrets" });
        }
        let (group, rest) = key.strip_prefix(ROOT)?.split_once('/')?;
        let (resource, _) = rest.split_once('/')?;
        Some(Place { group: if group == CORE { "" } else { group }, resource })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_resources() {
        let check = |pattern: &str, key: &str, expected: bool| {
            let matched =
                Place::of(key).is_some_and(|place| Pattern::parse(pattern).unwrap().matches(&place));
            assert_eq!(matched, expected, "{pattern} {key}");
        };
        check("secrets", "/registry/core/secrets/default/a", true);
        check("secrets.", "/registry/core/secrets/default/a", true);
        check("secrets", "/registry/other.io/secrets/default/a", false);
        check("secrets", "/minik8s/identity", true);
        check("configmaps", "/minik8s/identity", false);
        check("deployments.apps", "/registry/apps/deployments/default/a", true);
        check("*.apps", "/registry/apps/deployments/default/a", true);
        check("*.apps", "/registry/core/secrets/default/a", false);
        check("*.", "/registry/core/secrets/default/a", true);
        check("*.", "/registry/apps/deployments/default/a", false);
        check("*.*", "/registry/apps/deployments/default/a", true);
        check("*.*", "/records/uid/x", false);
        check("*.*", "/registry/apps", false);
        check("widgets.shop.example.com", "/registry/shop.example.com/widgets/w", true);
    }

    #[test]
    fn patterns_that_say_nothing_are_refused() {
        for wrong in
            ["", "*", ".apps", "*secrets", "*.a*", "pods/status", "Secrets", "deployments.extensions"]
        {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pattern_can_cover_others() {
        let check = |one: &str, other: &str, expected: bool| {
            let parse = |text| Pattern::parse(text).unwrap();
            assert_eq!(parse(one).covers(&parse(other)), expected, "{one} {other}");
        };
        check("*.*", "secrets", true);
        check("*.*", "*.apps", true);
        check("*.", "secrets", true);
        check("*.apps", "*.*", false);
        check("secrets", "*.", false);
        check("secrets", "secrets", true);
    }
}
