//! The file of an AuthenticationConfiguration, read and checked, with its expressions compiled. What upstream refuses is
//! refused here, in words that name the field. Pure.

use std::collections::HashSet;

use http::Uri;
use minik8s_api::AnonymousRules;
use serde::Deserialize;

use crate::jwt::Algorithm;
use crate::mapping::{ClaimMappings, ClaimRule, Mapping, MappingConfiguration, UserRule};

/// What upstream takes as well, all with these fields.
const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"];
/// More issuers than this are a mistake.
const MOST_ISSUERS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    #[error("it cannot be read: {0}")]
    Read(String),
    #[error("{0}")]
    Syntax(String),
    #[error("{at}: {why}")]
    Invalid { at: String, why: String },
}

impl ConfigurationError {
    pub fn syntax(error: impl std::fmt::Display) -> Self {
        ConfigurationError::Syntax(error.to_string())
    }
}

/// Who is trusted to say who somebody is.
pub struct AuthenticationSettings {
    pub(crate) issuers: Vec<IssuerSettings>,
    /// None: whoever shows nothing is `system:anonymous`, as without a file.
    pub anonymous: Option<AnonymousRules>,
}

pub(crate) struct IssuerSettings {
    pub url: String,
    /// Where its discovery document is.
    pub discovery: String,
    /// PEM; empty is what this machine trusts.
    pub authority: Vec<u8>,
    pub audiences: Vec<String>,
    pub algorithms: Vec<Algorithm>,
    pub mapping: Mapping,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct File {
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    #[allow(dead_code, reason = "a file may have it")]
    pub metadata: Option<serde_json::Value>,
    #[serde(default)]
    pub jwt: Vec<JwtConfiguration>,
    pub anonymous: Option<AnonymousConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JwtConfiguration {
    pub issuer: IssuerConfiguration,
    #[serde(default)]
    pub claim_validation_rules: Vec<ClaimRule>,
    pub claim_mappings: ClaimMappings,
    #[serde(default)]
    pub user_validation_rules: Vec<UserRule>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct IssuerConfiguration {
    pub url: String,
    #[serde(rename = "discoveryURL")]
    pub discovery_url: Option<String>,
    #[serde(default)]
    pub certificate_authority: String,
    #[serde(default)]
    pub audiences: Vec<String>,
    #[serde(default)]
    pub audience_match_policy: String,
    #[serde(default)]
    pub egress_selector_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AnonymousConfiguration {
    enabled: bool,
    #[serde(default)]
    conditions: Vec<AnonymousCondition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnonymousCondition {
    path: String,
}

impl AuthenticationSettings {
    /// `own_issuer` issues the tokens of this cluster's service accounts: nobody else may.
    pub fn parse(text: &str, own_issuer: &str) -> Result<Self, ConfigurationError> {
        let file: File = serde_saphyr::from_str(text).map_err(ConfigurationError::syntax)?;
        check_kind((&file.api_version, &file.kind), "AuthenticationConfiguration")?;
        if file.jwt.len() > MOST_ISSUERS {
            return Err(invalid(
                "jwt",
                &format!("it has {} issuers, {MOST_ISSUERS} are allowed", file.jwt.len()),
            ));
        }
        let mut seen = HashSet::from([own_issuer.to_owned()]);
        let mut issuers = Vec::new();
        for (index, jwt) in file.jwt.into_iter().enumerate() {
            let at = format!("jwt[{index}]");
            let issuer = read_issuer(&at, jwt, Algorithm::ALL.to_vec())?;
            for url in [&issuer.url, &issuer.discovery] {
                if !seen.insert(url.clone()) {
                    let why = format!("{url} is there twice, or is this cluster's own issuer");
                    return Err(invalid(&format!("{at}.issuer"), &why));
                }
            }
            issuers.push(issuer);
        }
        let anonymous = file.anonymous.map(read_anonymous).transpose()?;
        Ok(AuthenticationSettings { issuers, anonymous })
    }
}

pub(crate) fn read_issuer(
    at: &str,
    jwt: JwtConfiguration,
    algorithms: Vec<Algorithm>,
) -> Result<IssuerSettings, ConfigurationError> {
    let IssuerConfiguration { url, discovery_url, certificate_authority, audiences, .. } = &jwt.issuer;
    let at_issuer = |field: &str| format!("{at}.issuer.{field}");
    check_url(&at_issuer("url"), url)?;
    if let Some(discovery) = discovery_url {
        check_url(&at_issuer("discoveryURL"), discovery)?;
        if discovery.trim_end_matches('/') == url.trim_end_matches('/') {
            return Err(invalid(&at_issuer("discoveryURL"), "it must be another one than url"));
        }
    }
    if audiences.is_empty() || audiences.iter().any(String::is_empty) {
        let why = "name at least one audience: without it, tokens for other programs would count here";
        return Err(invalid(&at_issuer("audiences"), why));
    }
    match (jwt.issuer.audience_match_policy.as_str(), audiences.len()) {
        ("", 1) | ("MatchAny", _) => {}
        ("", _) => {
            return Err(invalid(
                &at_issuer("audienceMatchPolicy"),
                "with several audiences it must be MatchAny",
            ));
        }
        (other, _) => {
            let why = format!("{other:?} is not known: use MatchAny");
            return Err(invalid(&at_issuer("audienceMatchPolicy"), &why));
        }
    }
    if !jwt.issuer.egress_selector_type.is_empty() {
        return Err(invalid(
            &at_issuer("egressSelectorType"),
            "there are no egress selectors here: leave it out",
        ));
    }
    let authority = certificate_authority.clone().into_bytes();
    if !authority.is_empty() {
        crate::https::roots(&authority).map_err(|why| invalid(&at_issuer("certificateAuthority"), &why))?;
    }
    let default_discovery = format!("{}/.well-known/openid-configuration", url.trim_end_matches('/'));
    let mapping = MappingConfiguration {
        claim_validation_rules: jwt.claim_validation_rules,
        claim_mappings: jwt.claim_mappings,
        user_validation_rules: jwt.user_validation_rules,
    };
    Ok(IssuerSettings {
        discovery: discovery_url.clone().unwrap_or(default_discovery),
        url: url.clone(),
        authority,
        audiences: audiences.clone(),
        algorithms,
        mapping: Mapping::compile(at, mapping)?,
    })
}

pub(crate) fn check_url(at: &str, text: &str) -> Result<(), ConfigurationError> {
    let uri: Uri = text.parse().map_err(|_| invalid(at, &format!("{text:?} is no URL")))?;
    if uri.scheme_str() != Some("https") {
        return Err(invalid(at, "it must begin with https://"));
    }
    if uri.host().unwrap_or_default().is_empty() {
        return Err(invalid(at, "it names no host"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(invalid(at, "it must not have a user"));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(invalid(at, "it must have neither a query nor a fragment"));
    }
    Ok(())
}

fn read_anonymous(anonymous: AnonymousConfiguration) -> Result<AnonymousRules, ConfigurationError> {
    if !anonymous.enabled && !anonymous.conditions.is_empty() {
        return Err(invalid("anonymous.conditions", "enabled must be true where there are conditions"));
    }
    let mut paths = Vec::new();
    for (index, condition) in anonymous.conditions.into_iter().enumerate() {
        if !condition.path.starts_with('/') {
            return Err(invalid(&format!("anonymous.conditions[{index}].path"), "a path begins with /"));
        }
        paths.push(condition.path);
    }
    Ok(AnonymousRules { enabled: anonymous.enabled, paths })
}

/// Of the file that it is, by its version and kind.
pub fn check_kind((version, kind): (&str, &str), expected: &str) -> Result<(), ConfigurationError> {
    if VERSIONS.contains(&version) && kind == expected {
        return Ok(());
    }
    let why = format!("it is a {kind} of {version}: {expected} of {} is expected", VERSIONS[0]);
    Err(ConfigurationError::Syntax(why))
}

pub fn invalid(at: &str, why: &str) -> ConfigurationError {
    ConfigurationError::Invalid { at: at.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "https://kubernetes.default.svc.cluster.local";

    #[track_caller]
    fn check(rest: &str, expected: &str) {
        let text =
            format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n{rest}");
        match AuthenticationSettings::parse(&text, OWN) {
            Ok(_) => assert_eq!(expected, "", "{rest}"),
            Err(error) => {
                let told = error.to_string();
                assert!(!expected.is_empty() && told.contains(expected), "{rest}: {told}");
            }
        }
    }

    /// One issuer whose parts are these.
    fn issuer(issuer: &str, rest: &str) -> String {
        format!("jwt:\n- issuer: {{{issuer}}}\n{rest}")
    }

    const GOOD: &str = "url: https://a.example, audiences: [k8s]";
    const NAME: &str = "  claimMappings: {username: {claim: sub, prefix: 'a:'}}";

    #[test]
    fn what_upstream_documents_is_read() {
        check(
            "jwt:\n- issuer:\n    url: https://example.com\n    discoveryURL: https://discovery.example.com/.well-known/openid-configuration\n    \
             audiences: [my-app, my-other-app]\n    audienceMatchPolicy: MatchAny\n  \
             claimValidationRules:\n  - {claim: hd, requiredValue: example.com}\n  \
             - {expression: 'claims.hd == \"example.com\"', message: the hd claim must be set to example.com}\n  \
             - {expression: 'claims.exp - claims.nbf <= 86400', message: too long}\n  \
             claimMappings:\n    username: {expression: 'claims.username + \":external-user\"'}\n    \
             groups: {expression: 'claims.roles.split(\",\")'}\n    uid: {expression: 'claims.sub'}\n    \
             extra: [{key: example.com/tenant, valueExpression: claims.tenant}]\n  \
             userValidationRules:\n  - {expression: \"!user.username.startsWith('system:')\", message: reserved}\n  \
             - {expression: \"user.groups.all(group, !group.startsWith('system:'))\", message: reserved}\n\
             anonymous: {enabled: true, conditions: [{path: /livez}]}",
            "",
        );
    }

    #[test]
    fn faults_say_where_they_are() {
        check(&issuer(GOOD, NAME), "");
        check(
            &issuer("url: http://a.example, audiences: [k]", NAME),
            "jwt[0].issuer.url: it must begin with https",
        );
        check(&issuer("url: 'https://u@a', audiences: [k]", NAME), "must not have a user");
        check(&issuer("url: 'https://a?b=c', audiences: [k]", NAME), "neither a query");
        check(&issuer("url: https://a", NAME), "issuer.audiences: name at least one");
        check(&issuer("url: https://a, audiences: [a, b]", NAME), "audienceMatchPolicy: with several");
        check(
            &issuer("url: https://a, audiences: [a], audienceMatchPolicy: All", NAME),
            "\"All\" is not known",
        );
        check(
            &issuer("url: https://a, audiences: [a], certificateAuthority: x", NAME),
            "certificateAuthority",
        );
        check(
            &issuer("url: https://a, audiences: [a], egressSelectorType: cluster", NAME),
            "egressSelectorType",
        );
        check(
            &issuer("url: https://a, audiences: [a], discoveryURL: https://a/", NAME),
            "another one than url",
        );
        check(&issuer(&format!("url: '{OWN}', audiences: [a]"), NAME), "this cluster's own issuer");
        let twice = format!("{}\n- issuer: {{{GOOD}}}\n{NAME}", issuer(GOOD, NAME));
        check(&twice, "jwt[1].issuer: https://a.example is there twice");
        check("anonymous: {enabled: false, conditions: [{path: /x}]}", "anonymous.conditions: enabled");
        check("anonymous: {enabled: true, conditions: [{path: x}]}", "conditions[0].path");
        check("jwtt: []", "jwtt");
    }

    #[test]
    fn mappings_must_say_who_somebody_is() {
        let of = |mapping: &str| issuer(GOOD, mapping);
        check(&of("  claimMappings: {username: {}}"), "jwt[0].claimMappings.username: claim or expression");
        check(&of("  claimMappings: {username: {claim: sub}}"), "username.prefix: it must be given");
        check(&of("  claimMappings: {username: {claim: a, prefix: b, expression: c}}"), "not both");
        check(&of("  claimMappings: {username: {expression: '1'}}"), "username.expression: must evaluate to");
        check(&of("  claimMappings: {username: {expression: 'claims.'}}"), "username.expression: ");
        check(&of("  claimMappings: {username: {expression: 'claims.email'}}"), "email_verified");
        let verified =
            "  claimMappings: {username: {expression: 'claims.email_verified ? claims.email : \"\"'}}";
        check(&of(verified), "");
        let rest = |more: &str| of(&format!("{NAME}\n{more}"));
        check(&rest("  claimValidationRules: [{claim: a, expression: b}]"), "claimValidationRules[0]");
        check(&rest("  claimValidationRules: [{expression: '1'}]"), "must evaluate to bool");
        check(
            &rest("  userValidationRules: [{expression: 'user.nobody'}]"),
            "userValidationRules[0].expression",
        );
        let extra = |key: &str| {
            let user = "username: {claim: sub, prefix: ''}";
            of(&format!("  claimMappings: {{{user}, extra: [{{key: '{key}', valueExpression: claims.a}}]}}"))
        };
        check(&extra("example.com/tenant"), "");
        for wrong in ["tenant", "Example.com/x", "kubernetes.io/x", "a.k8s.io/x", "a/", ""] {
            check(&extra(wrong), "claimMappings.extra[0].key");
        }
    }
}
