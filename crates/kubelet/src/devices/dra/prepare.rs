//! Prepares the claims of a pod, and undoes it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};
use kube::Api;
use minik8s_csi::Driver;
use minik8s_informer::Lenient;

use super::api::{Claim, NodePrepareResources, NodeUnprepareResources};
use super::prepared::{Preparation, PreparedClaim, PreparedDevice, User};
use super::{Dra, DraError};

impl Dra {
    /// Prepares what a pod claims, all or none. Asked again, it does what is missing.
    pub async fn prepare(&self, client: &kube::Client, uid: &str, pod: &core::Pod) -> Result<(), DraError> {
        let entries = claims_of(pod)?;
        if entries.is_empty() {
            return Ok(());
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        let api: Api<Lenient<ResourceClaim>> = Api::namespaced(client.clone(), namespace);
        for entry in entries {
            let claim =
                api.get(&entry.claim).await.map_err(|error| DraError::Api(entry.claim.clone(), error))?;
            self.prepare_one(uid, pod, &entry, &claim.into_inner()).await?;
        }
        Ok(())
    }

    async fn prepare_one(
        &self,
        uid: &str,
        pod: &core::Pod,
        entry: &Entry,
        claim: &ResourceClaim,
    ) -> Result<(), DraError> {
        let results = usable(uid, entry, claim)?;
        let claim_uid = claim.metadata.uid.clone().unwrap_or_default();
        let turn = self.turn(&claim_uid);
        let _one_at_a_time = turn.lock().await;
        let missing = {
            let mut prepared = self.prepared.lock();
            let record = prepared.claims.entry(claim_uid.clone()).or_insert_with(|| PreparedClaim {
                namespace: claim.metadata.namespace.clone().unwrap_or_default(),
                name: entry.claim.clone(),
                ..PreparedClaim::default()
            });
            record.users.insert(uid.to_owned(), user(pod, &entry.name));
            for (driver, results) in &results {
                let skips = |operation: &str| results.iter().all(|result| skips(result, operation));
                record.drivers.entry(driver.clone()).or_insert_with(|| Preparation {
                    is_complete: skips("NodePrepareResources"),
                    skips_unprepare: skips("NodeUnprepareResources"),
                    devices: Vec::new(),
                });
            }
            let missing = record.drivers.iter().filter(|(_, done)| !done.is_complete);
            let missing: Vec<String> = missing.map(|(driver, _)| driver.clone()).collect();
            prepared.write(&self.dir)?;
            missing
        };
        for driver in missing {
            let devices = self.ask_to_prepare(&driver, &claim_uid, claim).await?;
            let mut prepared = self.prepared.lock();
            let record =
                prepared.claims.get_mut(&claim_uid).and_then(|record| record.drivers.get_mut(&driver));
            if let Some(record) = record {
                (record.is_complete, record.devices) = (true, devices);
            }
            prepared.write(&self.dir)?;
        }
        Ok(())
    }

    async fn ask_to_prepare(
        &self,
        driver: &str,
        uid: &str,
        claim: &ResourceClaim,
    ) -> Result<Vec<PreparedDevice>, DraError> {
        let failed = |problem: String| DraError::Driver { driver: driver.to_owned(), problem };
        let asked = Claim {
            namespace: claim.metadata.namespace.clone().unwrap_or_default(),
            uid: uid.to_owned(),
            name: claim.metadata.name.clone().unwrap_or_default(),
        };
        let plugin = self.plugin(driver)?;
        let answer = plugin.call(&NodePrepareResources { claims: vec![asked] }).await;
        let mut answer = answer.map_err(|error| failed(error.to_string()))?;
        let Some(prepared) = answer.claims.remove(uid) else {
            return Err(failed("it has not answered for the claim".to_owned()));
        };
        if !prepared.error.is_empty() {
            return Err(failed(prepared.error));
        }
        let devices = prepared.devices.into_iter().map(|device| PreparedDevice {
            requests: device.request_names,
            pool: device.pool_name,
            device: device.device_name,
            cdi: device.cdi_device_ids,
        });
        Ok(devices.collect())
    }

    fn plugin(&self, driver: &str) -> Result<Driver, DraError> {
        self.plugins.get(driver).ok_or_else(|| DraError::NoDriver(driver.to_owned()))
    }

    /// A pod's containers have ended: what only it used is undone.
    pub async fn unprepare(&self, uid: &str) -> Result<(), DraError> {
        let used: Vec<String> = {
            let prepared = self.prepared.lock();
            let used = prepared.claims.iter().filter(|(_, claim)| claim.users.contains_key(uid));
            used.map(|(claim_uid, _)| claim_uid.clone()).collect()
        };
        for claim_uid in used {
            let turn = self.turn(&claim_uid);
            let _one_at_a_time = turn.lock().await;
            let Some(claim) = self.prepared.lock().claims.get(&claim_uid).cloned() else { continue };
            if claim.users.keys().all(|user| user == uid) {
                self.undo(&claim_uid, &claim).await?;
                continue;
            }
            let mut prepared = self.prepared.lock();
            if let Some(record) = prepared.claims.get_mut(&claim_uid) {
                record.users.remove(uid);
            }
            prepared.write(&self.dir)?;
        }
        Ok(())
    }

    /// Undoes what pods have left that were gone when this agent came.
    pub async fn unprepare_unused(&self) {
        let unused: Vec<String> = {
            let prepared = self.prepared.lock();
            let unused = prepared.claims.iter().filter(|(_, claim)| claim.users.is_empty());
            unused.map(|(uid, _)| uid.clone()).collect()
        };
        for uid in unused {
            let turn = self.turn(&uid);
            let _one_at_a_time = turn.lock().await;
            let claim = self.prepared.lock().claims.get(&uid).cloned();
            let Some(claim) = claim.filter(|claim| claim.users.is_empty()) else { continue };
            if let Err(error) = self.undo(&uid, &claim).await {
                tracing::warn!(%error, claim = claim.name, "a claim that nobody uses here is still prepared");
            }
        }
    }

    async fn undo(&self, uid: &str, claim: &PreparedClaim) -> Result<(), DraError> {
        let told = claim.drivers.iter().filter(|(_, preparation)| !preparation.skips_unprepare);
        for driver in told.map(|(driver, _)| driver) {
            let failed = |problem: String| DraError::Driver { driver: driver.clone(), problem };
            let (namespace, name) = (claim.namespace.clone(), claim.name.clone());
            let asked =
                NodeUnprepareResources { claims: vec![Claim { namespace, uid: uid.to_owned(), name }] };
            let answer = self.plugin(driver)?.call(&asked).await;
            let answer = answer.map_err(|error| failed(error.to_string()))?;
            let refused = answer.claims.get(uid).map(|answer| answer.error.clone());
            if let Some(problem) = refused.filter(|problem| !problem.is_empty()) {
                return Err(failed(problem));
            }
        }
        let mut prepared = self.prepared.lock();
        prepared.claims.remove(uid);
        Ok(prepared.write(&self.dir)?)
    }
}

/// A claim by the name that the pod calls it, and by its own.
struct Entry {
    name: String,
    claim: String,
    is_made_for_pod: bool,
}

fn claims_of(pod: &core::Pod) -> Result<Vec<Entry>, DraError> {
    let named = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let made = || pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    let mut entries = Vec::new();
    for one in named {
        let (claim, is_made_for_pod) = match &one.resource_claim_name {
            Some(claim) => (Some(claim), false),
            None => {
                let status = made().find(|status| status.name == one.name);
                let status = status.ok_or_else(|| DraError::NotMade(one.name.clone()))?;
                (status.resource_claim_name.as_ref(), true)
            }
        };
        entries.extend(claim.map(|claim| Entry {
            name: one.name.clone(),
            claim: claim.clone(),
            is_made_for_pod,
        }));
    }
    Ok(entries)
}

type Results<'a> = BTreeMap<String, Vec<&'a DeviceRequestAllocationResult>>;

/// What the claim has, by driver, if this pod may use it.
fn usable<'a>(uid: &str, entry: &Entry, claim: &'a ResourceClaim) -> Result<Results<'a>, DraError> {
    let name = || entry.claim.clone();
    if entry.is_made_for_pod {
        let owners = claim.metadata.owner_references.iter().flatten();
        if !owners.into_iter().any(|owner| owner.uid == uid && owner.controller == Some(true)) {
            return Err(DraError::NotOurs(name()));
        }
    }
    let status = claim.status.as_ref().ok_or_else(|| DraError::NotAllocated(name()))?;
    let allocation = status.allocation.as_ref().ok_or_else(|| DraError::NotAllocated(name()))?;
    if !status.reserved_for.iter().flatten().any(|consumer| consumer.uid == uid) {
        return Err(DraError::NotReserved(name()));
    }
    let mut results = Results::new();
    for result in allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten()) {
        results.entry(result.driver.clone()).or_default().push(result);
    }
    Ok(results)
}

fn skips(result: &DeviceRequestAllocationResult, operation: &str) -> bool {
    let skipped: BTreeSet<&str> = result.skip_node_operations.iter().flatten().map(String::as_str).collect();
    skipped.contains("*") || skipped.contains(operation)
}

fn user(pod: &core::Pod, claim: &str) -> User {
    let spec = pod.spec.as_ref();
    let initial = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let all = initial.chain(spec.into_iter().flat_map(|spec| &spec.containers));
    let containers = all.flat_map(|container| {
        let claims = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
        let wanted = claims.filter(|wanted| wanted.name == claim);
        wanted.map(|wanted| (container.name.clone(), wanted.request.clone()))
    });
    User { pod: pod.metadata.name.clone().unwrap_or_default(), containers: containers.collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn claim_is_used_by_those_it_is_reserved_for() {
        let check = |made: bool, claim: Value, expected: &str| {
            let claim: ResourceClaim = serde_json::from_value(claim).unwrap();
            let entry = Entry { name: "gpu".into(), claim: "c".into(), is_made_for_pod: made };
            let found =
                usable("u", &entry, &claim).map(|found| found.into_keys().collect::<Vec<_>>().join(","));
            assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected);
        };
        let result =
            json!({"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}});
        let claim = |allocation: Value, user: &str| {
            json!({"metadata": {"name": "c"}, "spec": {},
                "status": {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "p", "uid": user}]}})
        };
        check(false, claim(result.clone(), "u"), "d");
        check(false, claim(result.clone(), "v"), "resourceclaim c is not reserved for this pod");
        check(false, claim(Value::Null, "u"), "resourceclaim c has no devices: it is not allocated");
        check(true, claim(result, "u"), "resourceclaim c was not made for this pod");
    }

    #[test]
    fn pod_names_its_claims_or_waits_for_them() {
        let names = |spec: Value, status: Value| -> Result<Vec<String>, String> {
            let pod: core::Pod = serde_json::from_value(json!({"metadata": {}, "status": status,
                "spec": {"containers": [], "resourceClaims": spec}}))
            .unwrap();
            let found = claims_of(&pod).map_err(|error| error.to_string())?;
            Ok(found.into_iter().map(|entry| entry.claim).collect())
        };
        assert_eq!(
            names(json!([{"name": "a", "resourceClaimName": "c"}]), json!({})),
            Ok(vec!["c".to_owned()])
        );
        let template = json!([{"name": "a", "resourceClaimTemplateName": "t"}]);
        assert!(names(template.clone(), json!({})).unwrap_err().contains("not been made"));
        let status =
            |claim: Value| json!({"resourceClaimStatuses": [{"name": "a", "resourceClaimName": claim}]});
        assert_eq!(names(template.clone(), status(json!("made"))), Ok(vec!["made".to_owned()]));
        assert_eq!(names(template, status(Value::Null)), Ok(Vec::new()), "it needs none");
    }
}
