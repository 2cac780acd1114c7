//! The authorizers in force, and the file that says who they are, followed while the server runs. A file that is wrong
//! changes nothing, and is told once. As in upstream, a new file may put authorizers in another order and exchange webhooks,
//! but neither add nor remove Node and RBAC: that takes a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minik8s_api::{AuthorizationChain, AuthorizerStep};
use minik8s_authentication::{ConfigurationError, LOOK, invalid, text};
use parking_lot::RwLock;

use crate::configuration::AuthorizationSettings;

pub struct Authorizers(RwLock<Arc<[AuthorizerStep]>>);

impl Authorizers {
    pub fn new(settings: AuthorizationSettings) -> Arc<Self> {
        Arc::new(Authorizers(RwLock::new(settings.steps)))
    }

    /// Takes over what a changed file says.
    fn take_over(&self, settings: AuthorizationSettings) -> Result<(), ConfigurationError> {
        let now = AuthorizationSettings { steps: self.steps() };
        if settings.built_in() != now.built_in() {
            let why = "Node and RBAC are added and removed by a restart only";
            return Err(invalid("authorizers", why));
        }
        *self.0.write() = settings.steps;
        Ok(())
    }
}

impl AuthorizationChain for Authorizers {
    fn steps(&self) -> Arc<[AuthorizerStep]> {
        self.0.read().clone()
    }
}

impl AuthorizationSettings {
    pub fn read(path: &Path) -> Result<Self, ConfigurationError> {
        AuthorizationSettings::parse(&text(path)?)
    }
}

/// Takes over every change of the file. Never returns.
pub async fn follow(path: PathBuf, authorizers: Arc<Authorizers>) {
    let mut seen = text(&path);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = text(&path);
        if now == seen {
            continue;
        }
        let parsed = now.clone().and_then(|text| AuthorizationSettings::parse(&text));
        seen = now;
        match parsed.and_then(|settings| authorizers.take_over(settings)) {
            Ok(()) => tracing::info!(file = %path.display(), "the authorization configuration was read anew"),
            Err(error) => {
                tracing::error!(file = %path.display(), %error, "the authorization configuration stays as it was");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassicSettings;

    #[test]
    fn reload_keeps_the_authorizers_of_the_cluster() {
        let settings = |modes: &[&str]| {
            let modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
            let (authorized_ttl, unauthorized_ttl) = (LOOK, LOOK);
            let classic = ClassicSettings { modes, webhook_file: None, authorized_ttl, unauthorized_ttl };
            classic.settings().unwrap()
        };
        let authorizers = Authorizers::new(settings(&["Node", "RBAC"]));
        let first = |authorizers: &Authorizers| authorizers.steps()[0].by.name();
        authorizers.take_over(settings(&["RBAC", "Node"])).unwrap();
        assert_eq!(first(&authorizers), "RBAC");
        assert!(authorizers.take_over(settings(&["Node"])).is_err());
        assert_eq!(authorizers.steps().len(), 2, "what is wrong changes nothing");
    }
}
