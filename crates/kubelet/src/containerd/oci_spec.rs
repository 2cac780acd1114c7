//! The OCI spec of a container that was created and not started.
//!
//! Until a container starts, containerd's own API can change its spec, as its CRI plugin does for a resize. So it gets what
//! CRI has no words for, or what this containerd's CRI does not know. It never touches a container that runs.

use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::{GetContainerRequest, UpdateContainerRequest};
use serde_json::{Value, json};
use tonic::Status;
use tonic::transport::Channel;

use crate::image::in_namespace;

/// What devices need of a container beside files and environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpecEdits {
    /// By OCI's name for their moment, e.g. `createContainer`: programs of the machine that the runtime runs then.
    pub hooks: Vec<(String, Value)>,
    /// Groups that its process has beside its own.
    pub groups: Vec<u32>,
}

impl SpecEdits {
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty() && self.groups.is_empty()
    }

    fn apply(&self, spec: &mut Value) -> Option<()> {
        if !self.hooks.is_empty() {
            let hooks = spec.as_object_mut()?.entry("hooks").or_insert_with(|| json!({}));
            for (moment, hook) in &self.hooks {
                let of_moment = hooks.as_object_mut()?.entry(moment).or_insert_with(|| json!([]));
                of_moment.as_array_mut()?.push(hook.clone());
            }
        }
        if !self.groups.is_empty() {
            let user = spec.get_mut("process")?.get_mut("user")?.as_object_mut()?;
            let groups = user.entry("additionalGids").or_insert_with(|| json!([])).as_array_mut()?;
            for group in self.groups.iter().map(|group| json!(group)) {
                if !groups.contains(&group) {
                    groups.push(group);
                }
            }
        }
        Some(())
    }
}

/// Does what devices want done.
pub async fn edit_spec(channel: Channel, id: &str, edits: &SpecEdits) -> Result<(), Status> {
    change(channel, id, |spec| edits.apply(spec)).await
}

/// `apply` says None of a spec that it does not understand.
pub(super) async fn change(
    channel: Channel,
    id: &str,
    apply: impl FnOnce(&mut Value) -> Option<()>,
) -> Result<(), Status> {
    let not_understood = || Status::internal("the container's OCI spec is not understood");
    let mut client = ContainersClient::new(channel);
    let get = in_namespace(GetContainerRequest { id: id.to_owned() });
    let mut container = client.get(get).await?.into_inner().container;
    let kept = container.as_mut().and_then(|container| container.spec.as_mut());
    let kept = kept.ok_or_else(|| Status::internal("the container has no OCI spec"))?;
    let mut spec: Value = serde_json::from_slice(&kept.value).map_err(|_| not_understood())?;
    apply(&mut spec).ok_or_else(not_understood)?;
    kept.value = serde_json::to_vec(&spec).map_err(|_| not_understood())?;
    client.update(in_namespace(UpdateContainerRequest { container, update_mask: None })).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_and_groups_come_after_those_that_are_there() {
        let hook = |path: &str| json!({"path": path, "args": ["x"]});
        let edits = SpecEdits {
            hooks: vec![
                ("createContainer".to_owned(), hook("/b")),
                ("createContainer".to_owned(), hook("/c")),
                ("poststop".to_owned(), hook("/d")),
            ],
            groups: vec![44, 7],
        };
        let mut spec = json!({"ociVersion": "1.0.2", "hooks": {"createContainer": [hook("/a")]},
            "process": {"args": ["sh"], "user": {"uid": 0, "gid": 0, "additionalGids": [7]}}});
        edits.apply(&mut spec).unwrap();
        let hooks =
            json!({"createContainer": [hook("/a"), hook("/b"), hook("/c")], "poststop": [hook("/d")]});
        assert_eq!(spec["hooks"], hooks);
        assert_eq!(spec["process"]["user"]["additionalGids"], json!([7, 44]));
        assert_eq!(spec["process"]["args"], json!(["sh"]), "the rest stays");
        let mut bare = json!({});
        assert_eq!(SpecEdits { groups: vec![1], ..SpecEdits::default() }.apply(&mut bare), None);
        assert_eq!(SpecEdits::default().apply(&mut bare), Some(()));
        assert_eq!(bare, json!({}), "nothing was asked for");
    }
}
