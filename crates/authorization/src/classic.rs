//! The flags that configured authorization before there was a file for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use minik8s_api::{AuthorizerStep, AuthorizerType};
use minik8s_authentication::{ConfigurationError, invalid};
use minik8s_cel::authorization::Conditions;

use crate::configuration::{AuthorizationSettings, built_in};
use crate::webhook::{FailurePolicy, Webhook, WebhookSettings};

/// What upstream gives a webhook of a flag.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `--authorization-mode` and what belongs to it.
#[derive(Debug, Clone)]
pub struct ClassicSettings {
    pub modes: Vec<String>,
    pub webhook_file: Option<PathBuf>,
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
}

impl ClassicSettings {
    pub fn settings(&self) -> Result<AuthorizationSettings, ConfigurationError> {
        let at = "--authorization-mode";
        let mut steps: Vec<AuthorizerStep> = Vec::new();
        for mode in &self.modes {
            let by = match mode.as_str() {
                "Webhook" => AuthorizerType::Webhook(Arc::new(self.webhook()?)),
                other => built_in(other).map_err(|why| invalid(at, &why))?,
            };
            if steps.iter().any(|step| step.by.name() == mode) {
                return Err(invalid(at, &format!("{mode} is there twice")));
            }
            steps.push(AuthorizerStep { name: mode.to_lowercase(), by });
        }
        if self.webhook_file.is_some() && !self.modes.iter().any(|mode| mode == "Webhook") {
            let why = "cannot specify --authorization-webhook-config-file without mode Webhook";
            return Err(invalid(at, why));
        }
        Ok(AuthorizationSettings { steps: steps.into() })
    }

    fn webhook(&self) -> Result<Webhook, ConfigurationError> {
        let Some(path) = &self.webhook_file else {
            let why = "mode Webhook needs --authorization-webhook-config-file FILE";
            return Err(invalid("--authorization-mode", why));
        };
        let settings = WebhookSettings {
            name: "webhook".to_owned(),
            timeout: TIMEOUT,
            authorized_ttl: self.authorized_ttl,
            unauthorized_ttl: self.unauthorized_ttl,
            failure_policy: FailurePolicy::NoOpinion,
            conditions: Conditions::default(),
        };
        Webhook::read(path, settings).map_err(|why| invalid(&at_file(path), &why))
    }
}

fn at_file(path: &Path) -> String {
    format!("--authorization-webhook-config-file {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_checked_together_with_the_webhook() {
        let check = |modes: &str, file: Option<&str>, expected: Result<&str, &str>| {
            let classic = ClassicSettings {
                modes: modes.split(',').map(str::to_owned).collect(),
                webhook_file: file.map(PathBuf::from),
                authorized_ttl: TIMEOUT,
                unauthorized_ttl: TIMEOUT,
            };
            match (classic.settings(), expected) {
                (Ok(settings), Ok(types)) => {
                    let found: Vec<&str> = settings.steps.iter().map(|step| step.by.name()).collect();
                    assert_eq!(found.join(","), types);
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{modes}: {found:?}"),
            }
        };
        check("Node,RBAC", None, Ok("Node,RBAC"));
        check("RBAC", None, Ok("RBAC"));
        check("Node,Node", None, Err("Node is there twice"));
        check("AlwaysAllow", None, Err("AlwaysAllow is not there"));
        check("node", None, Err("\"node\" is not known"));
        check("Webhook,RBAC", None, Err("needs --authorization-webhook-config-file"));
        check("RBAC", Some("/x"), Err("without mode Webhook"));
        check(
            "RBAC,Webhook",
            Some("/no/such"),
            Err("--authorization-webhook-config-file /no/such: No such file"),
        );
    }
}
