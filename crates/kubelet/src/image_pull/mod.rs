//! Gets a container's image onto the node, as its pull policy says.

mod foreign;
mod keyring;

use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::Api;
use minik8s_informer::Lenient;

use crate::context::{NodeContext, PodContext};
use crate::cri::ImageRecord;
use crate::events::Severity;
use crate::image::{ImagePlace, OwnImage, own_image};
use crate::objects::secret_data;
use crate::pod::{ContainerSpec, DesiredPod, OperationError, subject};
use foreign::is_foreign;

const MADE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// An image, and what wants it: a container, or a volume of the pod.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub image: &'a str,
    pub policy: Option<&'a str>,
    pub container: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    pub fn by(container: &'a ContainerSpec) -> Self {
        Wanted {
            image: container.spec.image.as_deref().unwrap_or_default(),
            policy: container.spec.image_pull_policy.as_deref(),
            container: Some(&container.spec.name),
        }
    }
}

/// The image's record, after a pull if there must be one.
pub async fn ensure(
    context: &PodContext,
    desired_pod: &DesiredPod,
    wanted: Wanted<'_>,
) -> Result<ImageRecord, OperationError> {
    let name = wanted.image;
    let event = |severity, reason: &str, message: &str| {
        context.recorder.record(subject(desired_pod, wanted.container), severity, reason, message);
    };
    if !is_valid_name(name) {
        let message = format!("Failed to apply default image tag \"{name}\": couldn't parse image name");
        event(Severity::Warning, "InspectFailed", &message);
        return Err(OperationError::new("InvalidImageName", message));
    }
    let policy = match is_foreign(name, &desired_pod.namespace) {
        // That it is on this node says nothing of whether this pod may have it.
        true => PullPolicy::Always,
        false => policy(wanted.policy, name),
    };
    let inspect = |error| OperationError::new("ImageInspectError", error);
    let present = context.node.runtime.image(name).await.map_err(inspect)?;
    match (policy, present) {
        (PullPolicy::IfNotPresent | PullPolicy::Never, Some(image)) => {
            let message = format!("Container image \"{name}\" already present on machine");
            event(Severity::Normal, "Pulled", &message);
            return Ok(image);
        }
        (PullPolicy::Never, None) => {
            let message = format!("Container image \"{name}\" is not present with pull policy of Never");
            event(Severity::Warning, "ErrImageNeverPull", &message);
            return Err(OperationError::new("ErrImageNeverPull", message));
        }
        _ => {}
    }
    event(Severity::Normal, "Pulling", &format!("Pulling image \"{name}\""));
    let pulled = match own_image(name) {
        Some(own) => make(&context.node, name, own).await,
        None => pull(context, desired_pod, name).await,
    };
    if let Err(error) = pulled {
        event(Severity::Warning, "Failed", &format!("Failed to pull image \"{name}\": {error}"));
        event(Severity::Warning, "Failed", "Error: ErrImagePull");
        return Err(OperationError::new("ErrImagePull", error));
    }
    event(Severity::Normal, "Pulled", &format!("Successfully pulled image \"{name}\""));
    let pulled = context.node.runtime.image(name).await.map_err(inspect)?;
    pulled.ok_or_else(|| {
        OperationError::new("ImageInspectError", format!("image {name} vanished after its pull"))
    })
}

/// Pods that want the same one at the same time wait for the first.
async fn make(context: &NodeContext, name: &str, own: &dyn OwnImage) -> Result<(), String> {
    let _one = context.image_maker.lock().await;
    if let Ok(Some(_)) = context.runtime.image(name).await {
        return Ok(());
    }
    let containerd_socket = &context.config.containerd_socket();
    own.make(name, ImagePlace { containerd_socket, data_dir: &context.config.data_dir }).await?;
    let deadline = tokio::time::Instant::now() + MADE_TIMEOUT;
    loop {
        // The CRI plugin learns of new images through events.
        match context.runtime.image(name).await {
            Ok(Some(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
            Ok(None) if tokio::time::Instant::now() > deadline => {
                return Err("containerd does not show it".to_owned());
            }
            Ok(None) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// With each of the pod's credentials that fit, and without any last.
async fn pull(context: &PodContext, desired_pod: &DesiredPod, name: &str) -> Result<(), String> {
    let mut secrets = Vec::new();
    let api: Api<Lenient<core::Secret>> = Api::namespaced(context.client.clone(), &desired_pod.namespace);
    let named = desired_pod.spec().and_then(|spec| spec.image_pull_secrets.as_ref());
    for reference in named.into_iter().flatten() {
        // A secret that is not there is passed over: the image may be public.
        if let Ok(Some(secret)) = api.get_opt(&reference.name).await {
            secrets.push(secret_data(secret.into_inner()));
        }
    }
    let credentials = keyring::credentials(name, &secrets);
    let tried: Vec<_> = match is_foreign(name, &desired_pod.namespace) {
        true => vec![Some(foreign::allowed(&context.client, name, credentials).await?)],
        false => credentials.into_iter().map(Some).chain([None]).collect(),
    };
    let mut result = Ok(());
    for auth in tried {
        let pulled = context.node.runtime.pull_image(name, auth).await;
        result = pulled.map(drop).map_err(|error| error.to_string());
        if result.is_ok() {
            break;
        }
    }
    result
}

fn policy(wanted: Option<&str>, image: &str) -> PullPolicy {
    match wanted {
        Some("Always") => PullPolicy::Always,
        Some("Never") => PullPolicy::Never,
        Some("IfNotPresent") => PullPolicy::IfNotPresent,
        _ if crate::image::normalize(image).ends_with(":latest") => PullPolicy::Always,
        _ => PullPolicy::IfNotPresent,
    }
}

/// Repository paths are lower case; tags and digests follow.
fn is_valid_name(name: &str) -> bool {
    let (path, digest) = name.split_once('@').map_or((name, None), |(path, digest)| (path, Some(digest)));
    let last = path.rfind('/').map_or(0, |slash| slash + 1);
    let (repository, tag) = match path[last..].split_once(':') {
        Some((_, tag)) => (&path[..path.len() - tag.len() - 1], Some(tag)),
        None => (path, None),
    };
    let (host, rest) = repository.split_once('/').unwrap_or(("", repository));
    let component = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/".contains(c);
    let host_char = |c: char| c.is_ascii_alphanumeric() || ".-:_[]".contains(c);
    let tag_char = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !rest.is_empty()
        && rest.chars().all(component)
        && rest.split('/').all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()))
        && host.chars().all(host_char)
        && (host.is_empty() || host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '['))
        && tag.is_none_or(|tag| !tag.is_empty() && tag.len() <= 128 && tag.chars().all(tag_char))
        && digest.is_none_or(|digest| digest.split_once(':').is_some_and(|(_, hex)| hex.len() >= 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies() {
        use PullPolicy::*;
        let check =
            |wanted: Option<&str>, image: &str, want| assert_eq!(policy(wanted, image), want, "{image}");
        check(None, "a", Always);
        check(None, "a:latest", Always);
        check(None, "a:1", IfNotPresent);
        check(None, "a@sha256:0", IfNotPresent);
        check(Some("Never"), "a", Never);
        check(Some("IfNotPresent"), "a", IfNotPresent);
    }

    #[test]
    fn names() {
        let check = |name: &str, want: bool| assert_eq!(is_valid_name(name), want, "{name}");
        check("busybox", true);
        check("busybox:1.36", true);
        check("localhost:5000/a/b:x", true);
        check(&format!("a@sha256:{}", "0".repeat(64)), true);
        check("", false);
        check("Busybox", false);
        check("a:", false);
        check("a b", false);
        check("a//b", false);
        check("a@sha256:1", false);
        check("../x", false);
    }
}
