//! The file of an AuthorizationConfiguration, read and checked, with its expressions compiled. What upstream refuses is
//! refused here, in words that name the field.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use minik8s_api::{AuthorizerStep, AuthorizerType};
use minik8s_authentication::{ConfigurationError, check_kind, invalid};
use minik8s_cel::authorization::Conditions;
use serde::Deserialize;

use crate::webhook::{FailurePolicy, Webhook, WebhookSettings};

const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const AUTHORIZED_TTL: Duration = Duration::from_secs(5 * 60);
pub(crate) const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);
/// More conditions than this are a mistake, as upstream has it.
const MOST_CONDITIONS: usize = 64;

/// Who is asked, in this order.
pub struct AuthorizationSettings {
    pub(crate) steps: Arc<[AuthorizerStep]>,
}

impl std::fmt::Debug for AuthorizationSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.steps.iter().map(|step| (&step.name, step.by.name()))).finish()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    #[allow(dead_code, reason = "a file may have it")]
    metadata: Option<serde_json::Value>,
    #[serde(default)]
    authorizers: Vec<AuthorizerConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuthorizerConfiguration {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    name: String,
    webhook: Option<WebhookConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WebhookConfiguration {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: Option<String>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: Option<String>,
    cache_authorized_requests: Option<bool>,
    cache_unauthorized_requests: Option<bool>,
    #[serde(default)]
    timeout: String,
    #[serde(default)]
    subject_access_review_version: String,
    #[serde(default)]
    match_condition_subject_access_review_version: String,
    #[serde(default)]
    failure_policy: String,
    #[serde(default)]
    connection_info: ConnectionInfo,
    #[serde(default)]
    match_conditions: Vec<MatchCondition>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConnectionInfo {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    kube_config_file: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchCondition {
    #[serde(default)]
    expression: String,
}

impl AuthorizationSettings {
    /// Reads the kubeconfig files that it names, too.
    pub fn parse(text: &str) -> Result<Self, ConfigurationError> {
        let file: File = serde_saphyr::from_str(text).map_err(ConfigurationError::syntax)?;
        check_kind((&file.api_version, &file.kind), "AuthorizationConfiguration")?;
        if file.authorizers.is_empty() {
            return Err(invalid("authorizers", "at least one authorization mode must be defined"));
        }
        let (mut names, mut types) = (HashSet::new(), HashSet::new());
        let mut steps = Vec::new();
        for (index, authorizer) in file.authorizers.into_iter().enumerate() {
            let at = format!("authorizers[{index}]");
            let (name, kind) = (authorizer.name.clone(), authorizer.r#type.clone());
            let step = read_step(&at, authorizer)?;
            if kind != "Webhook" && !types.insert(kind.clone()) {
                return Err(invalid(&format!("{at}.type"), &format!("{kind} is there twice")));
            }
            if !names.insert(name.clone()) {
                return Err(invalid(&format!("{at}.name"), &format!("{name:?} is there twice")));
            }
            steps.push(step);
        }
        Ok(AuthorizationSettings { steps: steps.into() })
    }

    /// Which authorizers of the cluster itself are asked.
    pub(crate) fn built_in(&self) -> HashSet<&'static str> {
        let types = self.steps.iter().map(|step| step.by.name());
        types.filter(|name| *name != "Webhook").collect()
    }
}

fn read_step(at: &str, authorizer: AuthorizerConfiguration) -> Result<AuthorizerStep, ConfigurationError> {
    let AuthorizerConfiguration { r#type, name, webhook } = authorizer;
    if !is_subdomain(&name) {
        let why = "give it a name of lower case letters, digits, '-' and '.'";
        return Err(invalid(&format!("{at}.name"), why));
    }
    let by = match (r#type.as_str(), webhook) {
        ("Webhook", Some(webhook)) => {
            AuthorizerType::Webhook(Arc::new(read_webhook(&format!("{at}.webhook"), &name, webhook)?))
        }
        ("Webhook", None) => {
            return Err(invalid(&format!("{at}.webhook"), "required when type=Webhook"));
        }
        (_, Some(_)) => {
            return Err(invalid(&format!("{at}.webhook"), "may only be specified when type=Webhook"));
        }
        (other, None) => built_in(other).map_err(|why| invalid(&format!("{at}.type"), &why))?,
    };
    Ok(AuthorizerStep { name, by })
}

/// An authorizer that needs no more than its type.
pub(crate) fn built_in(name: &str) -> Result<AuthorizerType, String> {
    match name {
        "Node" => Ok(AuthorizerType::Node),
        "RBAC" => Ok(AuthorizerType::Rbac),
        "AlwaysAllow" | "AlwaysDeny" | "ABAC" => Err(format!("{name} is not there: use Node, RBAC, Webhook")),
        other => Err(format!("{other:?} is not known: use Node, RBAC, Webhook")),
    }
}

fn read_webhook(at: &str, name: &str, webhook: WebhookConfiguration) -> Result<Webhook, ConfigurationError> {
    let field = |name: &str| format!("{at}.{name}");
    let timeout = match webhook.timeout.as_str() {
        "" => return Err(invalid(&field("timeout"), "required, as 3s")),
        text => time(&field("timeout"), text)?,
    };
    if timeout.is_zero() || timeout > LONGEST_TIMEOUT {
        return Err(invalid(&field("timeout"), "must be > 0s and <= 30s"));
    }
    match webhook.subject_access_review_version.as_str() {
        "v1" => {}
        "" => return Err(invalid(&field("subjectAccessReviewVersion"), "required: v1")),
        other => {
            let why = format!("{other:?} is not spoken here: use v1");
            return Err(invalid(&field("subjectAccessReviewVersion"), &why));
        }
    }
    let failure_policy = match webhook.failure_policy.as_str() {
        "NoOpinion" => FailurePolicy::NoOpinion,
        "Deny" => FailurePolicy::Deny,
        other => {
            let why = format!("{other:?} is not known: use NoOpinion or Deny");
            return Err(invalid(&field("failurePolicy"), &why));
        }
    };
    let ttl = |name: &str, text: &Option<String>, default: Duration, is_kept: Option<bool>| {
        let span = text.as_deref().map_or(Ok(default), |text| time(&field(name), text))?;
        match (is_kept, span.is_zero()) {
            (Some(false), _) => Ok(Duration::ZERO),
            (_, true) => Err(invalid(&field(name), "must be > 0s")),
            (_, false) => Ok(span),
        }
    };
    let settings = WebhookSettings {
        name: name.to_owned(),
        timeout,
        authorized_ttl: ttl(
            "authorizedTTL",
            &webhook.authorized_ttl,
            AUTHORIZED_TTL,
            webhook.cache_authorized_requests,
        )?,
        unauthorized_ttl: ttl(
            "unauthorizedTTL",
            &webhook.unauthorized_ttl,
            UNAUTHORIZED_TTL,
            webhook.cache_unauthorized_requests,
        )?,
        failure_policy,
        conditions: read_conditions(at, &webhook)?,
    };
    let path = read_connection(&field("connectionInfo"), &webhook.connection_info)?;
    Webhook::read(path, settings).map_err(|why| {
        invalid(&field("connectionInfo.kubeConfigFile"), &format!("{}: {why}", path.display()))
    })
}

fn read_connection<'a>(at: &str, info: &'a ConnectionInfo) -> Result<&'a Path, ConfigurationError> {
    match (info.r#type.as_str(), info.kube_config_file.as_str()) {
        ("KubeConfigFile", "") => {
            Err(invalid(&format!("{at}.kubeConfigFile"), "required when type=KubeConfigFile"))
        }
        ("KubeConfigFile", file) if !Path::new(file).is_absolute() => {
            Err(invalid(&format!("{at}.kubeConfigFile"), &format!("{file:?} must be an absolute path")))
        }
        ("KubeConfigFile", file) => Ok(Path::new(file)),
        ("InClusterConfig", _) => {
            Err(invalid(&format!("{at}.type"), "InClusterConfig is for servers in pods: use KubeConfigFile"))
        }
        (other, _) => {
            Err(invalid(&format!("{at}.type"), &format!("{other:?} is not known: use KubeConfigFile")))
        }
    }
}

fn read_conditions(at: &str, webhook: &WebhookConfiguration) -> Result<Conditions, ConfigurationError> {
    let version = webhook.match_condition_subject_access_review_version.as_str();
    match (version, webhook.match_conditions.is_empty()) {
        ("v1", _) | ("", true) => {}
        ("", false) => {
            let at = format!("{at}.matchConditionSubjectAccessReviewVersion");
            return Err(invalid(&at, "required if match conditions are specified: v1"));
        }
        (other, _) => {
            let at = format!("{at}.matchConditionSubjectAccessReviewVersion");
            return Err(invalid(&at, &format!("{other:?} is not spoken here: use v1")));
        }
    }
    let at = format!("{at}.matchConditions");
    if webhook.match_conditions.len() > MOST_CONDITIONS {
        return Err(invalid(&at, &format!("there may be {MOST_CONDITIONS} at most")));
    }
    let mut seen = HashSet::new();
    for (index, condition) in webhook.match_conditions.iter().enumerate() {
        let at = format!("{at}[{index}].expression");
        if condition.expression.trim().is_empty() {
            return Err(invalid(&at, "required"));
        }
        if !seen.insert(condition.expression.as_str()) {
            return Err(invalid(&at, "it is there twice"));
        }
    }
    let expressions = webhook.match_conditions.iter().map(|condition| condition.expression.as_str());
    Conditions::compile(expressions)
        .map_err(|(index, why)| invalid(&format!("{at}[{index}].expression"), &why))
}

/// As Go writes it, without fractions: `1h30m`, `500ms`.
pub(crate) fn time(at: &str, text: &str) -> Result<Duration, ConfigurationError> {
    let wrong = || invalid(at, &format!("{text:?} is no time: write it as 30s or 5m"));
    let (mut rest, mut total) = (text, Duration::ZERO);
    if text == "0" {
        return Ok(total);
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        let (unit, factor) =
            units.into_iter().find(|(unit, _)| rest[digits..].starts_with(unit)).ok_or_else(wrong)?;
        let part = number.checked_mul(factor).map(Duration::from_millis).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &rest[digits + unit.len()..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.starts_with(inner) && label.ends_with(inner) && label.chars().all(|c| inner(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod tests;
