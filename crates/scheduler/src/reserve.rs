//! Writes into claims what was decided: devices for a claim, and that a pod may use it.
//!
//! Each claim is read anew and written only as it was read, so that pods that share one do not undo each other's words.
//! It never changes an allocation that somebody else has made.

use k8s_openapi::api::resource::v1::{
    AllocationResult, ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, Error};

use crate::devices::{FINALIZER, Reservation};
use crate::snapshot::PodInfo;

/// Others write to the same claim now and then; nobody does so all the time.
const ATTEMPTS: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    #[error("resourceclaim {0} has changed meanwhile")]
    Changed(String),
    #[error(transparent)]
    Api(#[from] Error),
}

/// Gives the claim its devices, if it has none, and the pod the claim.
pub async fn reserve(client: &Client, pod: &PodInfo, reservation: &Reservation) -> Result<(), ReserveError> {
    let seen = &reservation.claim;
    write(client, pod, seen, |claim| {
        let status = claim.status.get_or_insert_default();
        match (&status.allocation, &reservation.allocation) {
            (None, Some(decided)) => status.allocation = Some(stamped(decided)),
            (Some(has), Some(decided)) if !is_same(has, decided) => return None,
            (None, None) => return None,
            _ => {}
        }
        let consumers = status.reserved_for.get_or_insert_default();
        if !consumers.iter().any(|consumer| consumer.uid == pod.uid) {
            consumers.push(ResourceClaimConsumerReference {
                api_group: None,
                resource: "pods".to_owned(),
                name: pod.key.name.clone(),
                uid: pod.uid.clone(),
            });
        }
        let finalizers = claim.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        Some(())
    })
    .await
}

/// Takes the devices from a claim that nobody but this pod may use, which waits for a node.
pub async fn deallocate(client: &Client, pod: &PodInfo, seen: &ResourceClaim) -> Result<(), ReserveError> {
    write(client, pod, seen, |claim| {
        let status = claim.status.get_or_insert_default();
        let consumers = status.reserved_for.iter().flatten();
        if consumers.into_iter().any(|consumer| consumer.uid != pod.uid) {
            return None;
        }
        *status = ResourceClaimStatus::default();
        Some(())
    })
    .await
}

/// `change` says None where it does not apply any more.
async fn write(
    client: &Client,
    pod: &PodInfo,
    seen: &ResourceClaim,
    change: impl Fn(&mut ResourceClaim) -> Option<()>,
) -> Result<(), ReserveError> {
    let name = seen.metadata.name.clone().unwrap_or_default();
    let claims: Api<ResourceClaim> = Api::namespaced(client.clone(), &pod.key.namespace);
    let changed = || ReserveError::Changed(name.clone());
    for _ in 0..ATTEMPTS {
        let current = claims.get(&name).await?;
        if current.metadata.uid != seen.metadata.uid || current.metadata.deletion_timestamp.is_some() {
            return Err(changed());
        }
        let mut wanted = current.clone();
        change(&mut wanted).ok_or_else(changed)?;
        match put(&claims, &name, &current, wanted).await {
            Err(Error::Api(status)) if status.code == 409 => {}
            outcome => return Ok(outcome?),
        }
    }
    Err(changed())
}

/// The finalizer first: an allocation without it could vanish under a pod.
async fn put(
    claims: &Api<ResourceClaim>,
    name: &str,
    current: &ResourceClaim,
    mut wanted: ResourceClaim,
) -> Result<(), Error> {
    let params = PostParams::default();
    if wanted.metadata.finalizers != current.metadata.finalizers {
        let written = claims.replace(name, &params, &wanted).await?;
        wanted.metadata.resource_version = written.metadata.resource_version;
    }
    if wanted.status != current.status {
        claims.replace_status(name, &params, &wanted).await?;
    }
    Ok(())
}

/// With the time, and a name for each share.
fn stamped(decided: &AllocationResult) -> AllocationResult {
    let mut allocation = decided.clone();
    allocation.allocation_timestamp = Some(Time(Timestamp::now()));
    let results = allocation.devices.iter_mut().flat_map(|devices| devices.results.iter_mut().flatten());
    for result in results.filter(|result| result.consumed_capacity.is_some()) {
        result.share_id = Some(uuid::Uuid::new_v4().to_string());
    }
    allocation
}

fn is_same(has: &AllocationResult, decided: &AllocationResult) -> bool {
    let devices = |allocation: &AllocationResult| -> Vec<[String; 4]> {
        let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
        results
            .map(|one| [one.request.clone(), one.driver.clone(), one.pool.clone(), one.device.clone()])
            .collect()
    };
    devices(has) == devices(decided)
}
