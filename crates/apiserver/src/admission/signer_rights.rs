//! Who decides about certificates needs rights on the signer, beside those on the objects: `approve` to approve or deny a
//! CertificateSigningRequest, `sign` to issue what it or a PodCertificateRequest asks for, `attest` to say whom a signer's
//! ClusterTrustBundle trusts. They are verbs on `signers` of `certificates.k8s.io`, by name (`DOMAIN/NAME`) or for all of a
//! domain (`DOMAIN/*`). In upstream these are the plugins CertificateApproval, CertificateSigning,
//! ClusterTrustBundleAttest and CertificateSubjectRestriction.
//!
//! The signer that counts is the one of the stored object: nobody chooses another with the body of the same request.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_auth::pki::Csr;
use minik8s_auth::user::MASTERS;
use minik8s_auth::{Attributes, User};
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::authorizer::Authorizer;
use crate::error::{ApiError, Result};
use crate::object::object_at;
use crate::registry::Registry;

const GROUP: &str = "certificates.k8s.io";
/// Its certificates are users of this cluster.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

pub struct SignerRights {
    pub authorizer: Arc<Authorizer>,
}

#[async_trait]
impl Admission for SignerRights {
    async fn admit(&self, _: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        let place = (call.served.group.as_str(), call.served.plural.as_str(), call.subresource.as_str());
        if let ((GROUP, "certificatesigningrequests", "status"), Some(old)) = (place, request.old) {
            keep_approval(request.object, old);
        }
        Ok(())
    }

    async fn review(&self, _: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        if call.served.group != GROUP {
            return Ok(());
        }
        let forbidden = |why| ApiError::forbidden(Some(call.served.resource()), request.name(), why);
        if let Some(why) = refused_subject(request) {
            return Err(forbidden(why));
        }
        let Some(needed) = needed(request) else { return Ok(()) };
        match self.has(&call.user, &needed).await {
            true => Ok(()),
            false => Err(forbidden(needed.refusal())),
        }
    }
}

impl SignerRights {
    async fn has(&self, user: &User, needed: &Needed<'_>) -> bool {
        let of_domain = needed.signer.split('/').next().map(|domain| format!("{domain}/*"));
        for name in [Some(needed.signer.to_owned()), of_domain].into_iter().flatten() {
            let wanted = Attributes::resource(needed.verb, GROUP, "signers").named(&name);
            if self.authorizer.authorize(user, &wanted).await.is_allowed() {
                return true;
            }
        }
        false
    }
}

/// A right on a signer.
#[derive(Debug, PartialEq, Eq)]
struct Needed<'a> {
    verb: &'static str,
    signer: &'a str,
}

impl Needed<'_> {
    /// In upstream's words.
    fn refusal(&self) -> String {
        let signer = self.signer;
        match self.verb {
            "attest" => format!("user not permitted to attest for signerName {signer:?}"),
            verb => format!("user not permitted to {verb} requests with signerName {signer:?}"),
        }
    }
}

/// What this write takes, if anything.
fn needed<'a>(request: &'a Request<'_>) -> Option<Needed<'a>> {
    let call = request.call;
    let signer = |object: &'a Value| object["spec"]["signerName"].as_str().unwrap_or_default();
    match (call.served.plural.as_str(), call.subresource.as_str(), request.operation, request.old) {
        ("certificatesigningrequests", "approval", Operation::Update, Some(old)) => {
            Some(Needed { verb: "approve", signer: signer(old) })
        }
        ("certificatesigningrequests", "status", Operation::Update, Some(old))
            if differs(request.object, old, &["certificate", "conditions"]) =>
        {
            Some(Needed { verb: "sign", signer: signer(old) })
        }
        ("podcertificaterequests", "status", Operation::Update, Some(old))
            if request.object["status"] != old["status"] =>
        {
            Some(Needed { verb: "sign", signer: signer(old) })
        }
        ("clustertrustbundles", "", Operation::Create | Operation::Update, old) => {
            let signer = signer(request.object);
            let is_same = old.is_some_and(|old| is_same_but_for_gc(request.object, old));
            (!signer.is_empty() && !is_same).then_some(Needed { verb: "attest", signer })
        }
        _ => None,
    }
}

fn differs(new: &Value, old: &Value, fields: &[&str]) -> bool {
    fields.iter().any(|field| new["status"][*field] != old["status"][*field])
}

/// Whether a write changes only what garbage collection and migrations of the store do.
fn is_same_but_for_gc(new: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        let metadata = object_at(&mut object, "metadata");
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            metadata.shift_remove(field);
        }
        object
    };
    without(new) == without(old)
}

/// A certificate of the cluster's own clients for the group that no rule binds.
fn refused_subject(request: &Request<'_>) -> Option<String> {
    let call = request.call;
    let is_new = request.operation == Operation::Create
        && call.served.plural == "certificatesigningrequests"
        && call.subresource.is_empty();
    let spec = &request.object["spec"];
    if !is_new || spec["signerName"] != CLIENTS {
        return None;
    }
    match Csr::parse(spec["request"].as_str().unwrap_or_default()) {
        Err(error) => Some(format!("failed to parse CSR: {error}")),
        Ok(csr) => {
            let is_master = csr.subject.organizations.iter().any(|organization| organization == MASTERS);
            is_master.then(|| format!("use of {CLIENTS} signer with {MASTERS} group is not allowed"))
        }
    }
}

/// Who signs does not approve: those conditions are changed by `approval` alone.
fn keep_approval(object: &mut Value, old: &Value) {
    let is_approval = |condition: &Value| condition["type"] == "Approved" || condition["type"] == "Denied";
    let conditions = |of: &Value, approvals: bool| -> Vec<Value> {
        let all = of["status"]["conditions"].as_array().into_iter().flatten();
        all.filter(|condition| is_approval(condition) == approvals).cloned().collect()
    };
    let (kept, given) = (conditions(old, true), conditions(object, true));
    if kept == given {
        return;
    }
    let all: Vec<Value> = kept.into_iter().chain(conditions(object, false)).collect();
    let status = object_at(object, "status");
    match all.is_empty() {
        true => drop(status.shift_remove("conditions")),
        false => drop(status.insert("conditions".into(), all.into())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn approval_is_kept_whatever_a_status_says() {
        let check = |old: &[&str], new: &[&str], expected: &[&str]| {
            let object = |types: &[&str]| {
                let conditions: Vec<Value> = types.iter().map(|one| json!({"type": one})).collect();
                json!({"status": {"conditions": conditions}})
            };
            let mut new = object(new);
            keep_approval(&mut new, &object(old));
            let found = new["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found: Vec<&str> = found.iter().filter_map(|condition| condition["type"].as_str()).collect();
            assert_eq!(found, expected);
        };
        check(&[], &["Approved"], &[]);
        check(&[], &["Failed", "Approved"], &["Failed"]);
        check(&["Denied"], &["Approved"], &["Denied"]);
        check(&["Approved"], &[], &["Approved"]);
        check(&["Approved"], &["Failed"], &["Approved", "Failed"]);
        check(&["Approved"], &["Failed", "Approved"], &["Failed", "Approved"]);
    }

    #[test]
    fn only_garbage_collection_changes_a_bundle_without_attesting() {
        let bundle = |more: Value| {
            let mut bundle =
                json!({"metadata": {"name": "b"}, "spec": {"signerName": "a.b/c", "trustBundle": "x"}});
            for (field, value) in more.as_object().into_iter().flatten() {
                bundle["metadata"][field] = value.clone();
            }
            bundle
        };
        let plain = bundle(json!({}));
        let collected =
            bundle(json!({"finalizers": ["a/b"], "ownerReferences": [{}], "resourceVersion": "3"}));
        assert!(is_same_but_for_gc(&collected, &plain));
        assert!(!is_same_but_for_gc(&bundle(json!({"labels": {"a": "b"}})), &plain));
    }
}
