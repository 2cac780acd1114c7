//! The life of a release of any chart, in Helm 3's way or Helm 4's: after each step the objects are as their manifests say,
//! what only the other version has is not there, and what somebody else wrote is.

use serde_json::{Value, json};

use super::{Helm, MERGE, NAMESPACE, change};

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// By three-way patches, as Helm 3 does.
    Patch,
    /// By server-side apply, as Helm 4 does.
    Apply,
}

pub(super) struct Release<'a> {
    pub(super) helm: &'a Helm,
    pub(super) name: &'a str,
    pub(super) old: Vec<Value>,
    pub(super) new: Vec<Value>,
    pub(super) hook: Option<&'a str>,
    pub(super) way: Way,
}

impl Release<'_> {
    /// `helm install --wait`; afterwards somebody notes something at each object.
    pub(super) async fn install(&self) {
        self.helm.record(self.name, 1, "pending-install").await;
        self.revise(&[], &self.old).await;
        self.helm.record(self.name, 1, "deployed").await;
        for object in &self.old {
            let note = json!({"metadata": {"annotations": {"example.com/by": "hand"}}});
            self.helm.meddle(object, MERGE, &note).await;
        }
    }

    /// `helm upgrade --wait`.
    pub(super) async fn upgrade(&self) {
        self.helm.record(self.name, 2, "pending-upgrade").await;
        self.revise(&self.old, &self.new).await;
        self.helm.record(self.name, 1, "superseded").await;
        self.helm.record(self.name, 2, "deployed").await;
        self.check_notes().await;
    }

    /// `helm rollback NAME 1 --wait`.
    pub(super) async fn roll_back(&self) {
        self.helm.record(self.name, 3, "pending-rollback").await;
        self.revise(&self.new, &self.old).await;
        self.helm.record(self.name, 2, "superseded").await;
        self.helm.record(self.name, 3, "deployed").await;
        self.check_notes().await;
        let history = self.helm.history(self.name).await;
        let told: Vec<(&str, &str)> =
            history.iter().map(|(version, status)| (version.as_str(), status.as_str())).collect();
        assert_eq!(told, [("1", "superseded"), ("2", "superseded"), ("3", "deployed")]);
    }

    /// `helm uninstall`, until the pods are gone too.
    pub(super) async fn uninstall(&self) {
        self.helm.uninstall(self.name, &self.old).await;
        for object in self.old.iter().chain(&self.new) {
            assert_eq!(self.helm.get(object).await, Err(404), "{object}");
        }
        let selector = format!("labelSelector=app.kubernetes.io%2Fname%3D{}", self.name);
        self.helm.until_none(&format!("/api/v1/namespaces/{NAMESPACE}/pods?{selector}")).await;
    }

    /// An object of the first version.
    pub(super) fn object(&self, kind: &str) -> &Value {
        self.old.iter().find(|object| object["kind"] == kind).expect("a kind of the chart")
    }

    /// As it is now.
    pub(super) async fn found(&self, kind: &str) -> Value {
        self.helm.get(self.object(kind)).await.expect("it is there")
    }

    async fn revise(&self, from: &[Value], to: &[Value]) {
        // A rollback runs other hooks, of which there are none here.
        if let Some(hook) = self.hook.filter(|_| to != self.old || from.is_empty()) {
            self.helm.hook(hook).await;
        }
        match self.way {
            Way::Patch => change(self.helm, from, to).await,
            Way::Apply => self.apply(from, to).await,
        }
        self.helm.wait(to).await;
        for object in to {
            let found = self.helm.get(object).await.expect("it is there");
            let at = format!("{:?} {} {}", self.way, object["kind"], object["metadata"]["name"]);
            check_holds(&found, object, &at);
        }
        for object in self.old.iter().chain(&self.new).filter(|object| !is_in(to, object)) {
            assert_eq!(self.helm.get(object).await, Err(404), "{object}");
        }
    }

    async fn apply(&self, from: &[Value], to: &[Value]) {
        for object in to {
            self.helm.apply(object, false).await.unwrap_or_else(|code| panic!("{code}: {object}"));
        }
        for gone in from.iter().filter(|object| !is_in(to, object)) {
            self.helm.delete(gone).await;
        }
    }

    /// No version of the chart says anything about them. What was away meanwhile has none.
    async fn check_notes(&self) {
        for object in self.old.iter().filter(|object| is_in(&self.new, object)) {
            let found = self.helm.get(object).await.expect("it is there");
            assert_eq!(found["metadata"]["annotations"]["example.com/by"], "hand", "{:?} {found}", self.way);
        }
    }
}

pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    one["kind"] == other["kind"] && one["metadata"]["name"] == other["metadata"]["name"]
}

fn is_in(objects: &[Value], object: &Value) -> bool {
    objects.iter().any(|other| is_same(object, other))
}

/// Whether all is there that a manifest says. Objects may hold more, lists may not.
fn check_holds(found: &Value, wanted: &Value, at: &str) {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            for (name, value) in wanted {
                check_holds(found.get(name).unwrap_or(&Value::Null), value, &format!("{at}.{name}"));
            }
        }
        (Value::Array(found), Value::Array(wanted)) => {
            assert_eq!(found.len(), wanted.len(), "{at}: {found:?}");
            for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                check_holds(found, wanted, &format!("{at}[{index}]"));
            }
        }
        _ => assert_eq!(found, wanted, "{at}"),
    }
}
