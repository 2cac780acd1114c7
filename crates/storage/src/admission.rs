//! Rules about claims: one that names no class gets the default one, and it grows only where its class lets volumes grow.
//! And what can be in use is protected from its first moment.

use async_trait::async_trait;
use jiff::Timestamp;
use minik8s_api::{AdmissionError, AdmissionRequest, AdmissionRule, Objects, Operation, ResourceRef, Scope};
use minik8s_meta::Quantity;
use serde_json::Value;

use crate::annotation::{CLAIM_PROTECTION, IS_DEFAULT, VOLUME_PROTECTION};
use crate::attributes;

const CLAIMS: &str = "persistentvolumeclaims";
const CLASSES: ResourceRef<'static> =
    ResourceRef { group: "storage.k8s.io", version: "v1", plural: "storageclasses" };

pub struct DefaultStorageClass;

#[async_trait]
impl AdmissionRule for DefaultStorageClass {
    async fn admit(
        &self,
        cluster: &dyn Objects,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), AdmissionError> {
        let is_new_claim = request.operation == Operation::Create && request.is_core(CLAIMS);
        if !is_new_claim || request.object["spec"]["storageClassName"].is_string() {
            return Ok(());
        }
        let all = classes(cluster, request.now).await?;
        let defaults = all.iter().filter(|class| class["metadata"]["annotations"][IS_DEFAULT] == "true");
        // The newest wins, as upstream, so that a new default can be tried beside the old one.
        let newest =
            defaults.max_by_key(|class| class["metadata"]["creationTimestamp"].as_str().unwrap_or_default());
        if let Some(class) = newest {
            request.object["spec"]["storageClassName"] = class["metadata"]["name"].clone();
        }
        Ok(())
    }
}

pub struct VolumeGrowth;

#[async_trait]
impl AdmissionRule for VolumeGrowth {
    async fn admit(
        &self,
        cluster: &dyn Objects,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), AdmissionError> {
        let Some(old) = request.old else { return Ok(()) };
        if request.operation != Operation::Update || !request.is_core(CLAIMS) {
            return Ok(());
        }
        let size =
            |claim: &Value| Quantity::from_json(&claim["spec"]["resources"]["requests"]["storage"]).ok();
        if size(request.object) <= size(old) {
            return Ok(());
        }
        let name = old["spec"]["storageClassName"].as_str().unwrap_or_default();
        let all = classes(cluster, request.now).await?;
        let class = all.iter().find(|class| class["metadata"]["name"] == name);
        if class.is_some_and(|class| class["allowVolumeExpansion"] == true) {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(AdmissionError::Forbidden(why.to_owned()))
    }
}

/// The controllers add the same finalizers to what was there before. Until they have, nothing would hold it.
pub struct InUseProtection;

#[async_trait]
impl AdmissionRule for InUseProtection {
    async fn admit(&self, _: &dyn Objects, request: &mut AdmissionRequest<'_>) -> Result<(), AdmissionError> {
        if request.operation != Operation::Create || !request.subresource.is_empty() {
            return Ok(());
        }
        let finalizer = match (request.resource.group, request.resource.plural) {
            ("", CLAIMS) => CLAIM_PROTECTION,
            ("", "persistentvolumes") => VOLUME_PROTECTION,
            ("storage.k8s.io", "volumeattributesclasses") => attributes::PROTECTION,
            _ => return Ok(()),
        };
        let finalizers = &mut request.object["metadata"]["finalizers"];
        match finalizers.as_array_mut() {
            Some(all) if all.iter().any(|one| one == finalizer) => {}
            Some(all) => all.push(finalizer.into()),
            None => *finalizers = Value::from(vec![finalizer]),
        }
        Ok(())
    }
}

async fn classes(cluster: &dyn Objects, now: Timestamp) -> Result<Vec<Value>, AdmissionError> {
    Ok(cluster.read(&CLASSES, Scope { namespace: "", name: None, now }).await?)
}

#[cfg(test)]
mod tests {
    use minik8s_api::{ReadError, Stored};
    use serde_json::json;

    use super::*;

    struct Classes(Vec<Value>);

    #[async_trait]
    impl Objects for Classes {
        async fn read(&self, resource: &ResourceRef<'_>, _: Scope<'_>) -> Result<Vec<Value>, ReadError> {
            assert_eq!(resource.plural, "storageclasses");
            Ok(self.0.clone())
        }

        async fn stored(&self, _: &ResourceRef<'_>) -> Result<Stored, ReadError> {
            Err(ReadError("not asked for".to_owned()))
        }
    }

    fn cluster() -> Classes {
        let class = |name: &str, created: &str, default: &str, grows: bool| {
            json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": {IS_DEFAULT: default}},
                "allowVolumeExpansion": grows})
        };
        Classes(vec![
            class("newest", "2026-01-03T00:00:00Z", "false", false),
            class("newer", "2026-01-02T00:00:00Z", "true", true),
            class("old", "2026-01-01T00:00:00Z", "true", false),
        ])
    }

    async fn admit(
        rule: impl AdmissionRule,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), AdmissionError> {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let resource = ResourceRef { group: "", version: "v1", plural: CLAIMS };
        let now = Timestamp::UNIX_EPOCH;
        let mut request =
            AdmissionRequest { operation, resource, subresource: "", namespace: "n", object, old, now };
        rule.admit(&cluster(), &mut request).await
    }

    #[tokio::test]
    async fn claim_without_a_class_gets_the_newest_default() {
        for (class, expected) in [(Value::Null, "newer"), (json!("old"), "old"), (json!(""), "")] {
            let mut claim = json!({"spec": {"storageClassName": class}});
            admit(DefaultStorageClass, &mut claim, None).await.unwrap();
            assert_eq!(claim["spec"]["storageClassName"], expected, "{class}");
        }
    }

    #[tokio::test]
    async fn what_can_be_in_use_is_protected_when_it_is_made() {
        let mut claim = json!({"metadata": {"name": "c"}});
        admit(InUseProtection, &mut claim, None).await.unwrap();
        assert_eq!(claim["metadata"]["finalizers"], json!([CLAIM_PROTECTION]));
        let made = claim.clone();
        admit(InUseProtection, &mut claim, None).await.unwrap();
        assert_eq!(claim, made);
        claim["metadata"]["finalizers"] = json!([]);
        admit(InUseProtection, &mut claim, Some(&made)).await.unwrap();
        assert_eq!(claim["metadata"]["finalizers"], json!([]));
    }

    #[tokio::test]
    async fn claim_grows_only_where_its_class_allows_it() {
        let claim = |class: &str, size: &str| json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}});
        for (class, size, is_allowed) in
            [("newer", "2Gi", true), ("old", "2Gi", false), ("old", "1Gi", true), ("gone", "2Gi", false)]
        {
            let (old, mut new) = (claim(class, "1Gi"), claim(class, size));
            let admitted = admit(VolumeGrowth, &mut new, Some(&old)).await;
            assert_eq!(admitted.is_ok(), is_allowed, "{class} {size}");
        }
    }
}
