//! Brings a persistent volume of a driver to a pod: attached, staged once for the node, published for the pod.
//!
//! Every step can be done again; drivers must bear that, says the specification.

use std::io::ErrorKind;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Api;
use minik8s_csi::{Pairs, VolumeCapability, node};
use minik8s_informer::Lenient;
use serde_json::json;

use super::record::{Kept, Record, has_volumes, published_path, staging_dir};
use super::stats::abnormal_condition;
use super::{CsiError, Registered, attachment, expansion, requests};
use crate::Config;
use crate::context::VolumeContext;
use crate::events::Severity;
use crate::pod::{DesiredPod, subject};
use crate::storage::{Place, User, check_name, fs_group, users};
use crate::volume::request_token;

/// As often as Kubernetes' kubelet does it.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// The reason of the event, as Kubernetes' kubelet names it.
const ABNORMAL: &str = "VolumeConditionAbnormal";
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// A pod wants a volume.
pub struct Publication<'a> {
    pub context: &'a VolumeContext,
    pub desired_pod: &'a DesiredPod,
    pub user: User<'a>,
    pub volume: &'a core::PersistentVolume,
    pub claim: &'a core::PersistentVolumeClaim,
    pub is_read_only: bool,
    /// Nothing of the pod runs yet.
    pub is_start: bool,
}

pub async fn publish(wanted: &Publication<'_>) -> Result<Place, CsiError> {
    let Publication { context, desired_pod, user, volume, .. } = wanted;
    let name = volume.metadata.name.clone().unwrap_or_default();
    let spec = volume.spec.clone().unwrap_or_default();
    let source = spec.csi.clone().unwrap_or_default();
    check_name(&name).map_err(|_| CsiError::Name(name.clone()))?;
    let registered = registered(context, &source.driver)?;
    let driver = csi_driver(context, &source.driver).await?;
    if !requests::offers(driver.as_ref(), "Persistent") {
        return Err(CsiError::OnlyInline(source.driver));
    }
    let path = published_path(&context.node.config, user.pod, &name);
    let modes = spec.access_modes.clone().unwrap_or_default();
    let is_block = spec.volume_mode.as_deref() == Some("Block");
    let kind = if is_block { "BlockDevice" } else { "Directory" };
    let place = Place { path, kind: kind.to_owned(), takes_group: false };
    let published = Kept {
        dir: place.path.parent().map(ToOwned::to_owned).unwrap_or_default(),
        record: Record {
            driver: source.driver.clone(),
            handle: source.volume_handle.clone(),
            volume: name.clone(),
            is_attached: requests::must_be_attached(driver.as_ref()),
            is_complete: false,
        },
    };
    let _lock = context.storage.lock(&name).await;
    if modes.iter().any(|mode| mode == "ReadWriteOncePod")
        && users::is_used_by_others(&context.node.config.pods_dir(), &name, user.pod)?
    {
        return Err(CsiError::Exclusive);
    }
    let is_there = Record::read(&published.dir)?.is_some_and(|record| record.is_complete);
    let republishes = driver.as_ref().is_some_and(|driver| driver.spec.requires_republish == Some(true));
    let abnormal = match is_there && !wanted.is_start {
        true => abnormal_condition(&registered, &source.volume_handle, &place.path).await,
        false => None,
    };
    if let Some(why) = &abnormal {
        let message = format!("Volume {}: {why}", user.volume);
        context.recorder.record(subject(desired_pod, None), Severity::Warning, ABNORMAL, &message);
    }
    if wanted.is_start || !is_there || republishes || abnormal.is_some() {
        bring(wanted, &registered, driver.as_ref(), &published).await?;
        let takes =
            requests::takes_group(driver.as_ref(), &registered.can, source.fs_type.as_deref(), &modes);
        if let Some(group) = user.group.filter(|_| takes && !is_block && !is_there) {
            let (path, only_mismatch) = (place.path.clone(), user.only_root_mismatch);
            tokio::task::spawn_blocking(move || fs_group::apply(&path, group, only_mismatch)).await??;
        }
    }
    expansion::expand(wanted, &registered, &published).await?;
    Ok(place)
}

/// When volumes of drivers are looked at again: they may be larger, and some want to be published again and again, with
/// tokens that have not run out.
pub fn look_again(config: &Config, pod: &str, now: Timestamp) -> Option<Timestamp> {
    let has_any = has_volumes(config, pod);
    has_any.then(|| now.checked_add(LOOK_AGAIN).ok()).flatten()
}

/// The calls themselves, with a record before and after.
async fn bring(
    wanted: &Publication<'_>,
    registered: &Registered,
    driver: Option<&CSIDriver>,
    published: &Kept,
) -> Result<(), CsiError> {
    let Publication { context, desired_pod, user, volume, .. } = wanted;
    let source = volume.spec.as_ref().and_then(|spec| spec.csi.clone()).unwrap_or_default();
    users::note(&context.node.config.pods_dir(), user, &published.target())?;
    published.record.write(&published.dir)?;
    let publish_context = match published.record.is_attached {
        true => attachment::wait(context, &published.record).await?,
        false => Pairs::new(),
    };
    let capability = requests::capability(volume, &registered.can, user.group);
    let staging = stage(wanted, registered, published, &publish_context, &capability).await?;
    let mut volume_context: Pairs = source.volume_attributes.unwrap_or_default().into_iter().collect();
    if requests::wants_pod_info(driver) {
        volume_context.extend(requests::pod_info(desired_pod, false));
    }
    let mut secrets = secrets(context, source.node_publish_secret_ref.as_ref()).await?;
    give_tokens(context, desired_pod, driver, &mut volume_context, &mut secrets).await?;
    let call = node::PublishVolume {
        volume_id: source.volume_handle,
        publish_context,
        staging_target_path: staging,
        target_path: published.target().to_string_lossy().into_owned(),
        volume_capability: Some(capability),
        readonly: wanted.is_read_only || source.read_only == Some(true),
        secrets,
        volume_context,
    };
    registered.driver.call(&call).await?;
    Ok(Record::complete(&published.dir)?)
}

/// The path where the volume is staged; empty for drivers that do not stage.
async fn stage(
    wanted: &Publication<'_>,
    registered: &Registered,
    published: &Kept,
    publish_context: &Pairs,
    capability: &VolumeCapability,
) -> Result<String, CsiError> {
    if !registered.can.has(node::Can::StageUnstageVolume) {
        return Ok(String::new());
    }
    let Publication { context, volume, .. } = wanted;
    let source = volume.spec.as_ref().and_then(|spec| spec.csi.clone()).unwrap_or_default();
    let dir = staging_dir(&context.node.config, &source.driver, &source.volume_handle);
    let staged = Kept { dir, record: published.record.clone() };
    staged.record.write(&staged.dir)?;
    match tokio::fs::create_dir_all(staged.staging()).await {
        // Also a mount whose process has died, which no look tells from a file: the driver's to mend.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let path = staged.staging().to_string_lossy().into_owned();
    let call = node::StageVolume {
        volume_id: source.volume_handle,
        publish_context: publish_context.clone(),
        staging_target_path: path.clone(),
        volume_capability: Some(capability.clone()),
        secrets: secrets(context, source.node_stage_secret_ref.as_ref()).await?,
        volume_context: source.volume_attributes.unwrap_or_default().into_iter().collect(),
    };
    registered.driver.call(&call).await?;
    Record::complete(&staged.dir)?;
    Ok(path)
}

pub(super) fn registered(context: &VolumeContext, driver: &str) -> Result<Registered, CsiError> {
    context.csi.drivers.get(driver).ok_or_else(|| CsiError::NoDriver(driver.to_owned()))
}

/// What the cluster knows of a driver.
pub(super) async fn csi_driver(
    context: &VolumeContext,
    name: &str,
) -> Result<Option<CSIDriver>, kube::Error> {
    let drivers: Api<Lenient<CSIDriver>> = Api::all(context.client.clone());
    Ok(drivers.get_opt(name).await?.map(Lenient::into_inner))
}

pub(super) async fn secrets(
    context: &VolumeContext,
    reference: Option<&core::SecretReference>,
) -> Result<Pairs, CsiError> {
    let Some(reference) = reference else { return Ok(Pairs::new()) };
    let (namespace, name) =
        (reference.namespace.as_deref().unwrap_or_default(), reference.name.as_deref().unwrap_or_default());
    secret(context, namespace, name).await
}

pub(super) async fn secret(context: &VolumeContext, namespace: &str, name: &str) -> Result<Pairs, CsiError> {
    let secrets: Api<core::Secret> = Api::namespaced(context.client.clone(), namespace);
    let found = secrets.get(name).await;
    let found = found.map_err(|error| CsiError::Secret(format!("{namespace}/{name}"), error))?;
    let data = found.data.unwrap_or_default().into_iter();
    Ok(data.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned())).collect())
}

/// Tokens of the pod's service account, for drivers that ask for them: among the secrets, where the driver wants that.
pub(super) async fn give_tokens(
    context: &VolumeContext,
    desired_pod: &DesiredPod,
    driver: Option<&CSIDriver>,
    volume_context: &mut Pairs,
    secrets: &mut Pairs,
) -> Result<(), CsiError> {
    let Some(driver) = driver else { return Ok(()) };
    let wanted = driver.spec.token_requests.as_deref().unwrap_or_default();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut tokens = json!({});
    for request in wanted {
        let key = (request.audience.clone(), request.expiration_seconds.unwrap_or(3600));
        let status = request_token(&context.client, desired_pod, &key).await?;
        let expires = status.expiration_timestamp.map(|time| time.0.to_string());
        tokens[&request.audience] = json!({"token": status.token, "expirationTimestamp": expires});
    }
    let place = match driver.spec.service_account_token_in_secrets {
        Some(true) => secrets,
        _ => volume_context,
    };
    place.insert(TOKENS.to_owned(), tokens.to_string());
    Ok(())
}
