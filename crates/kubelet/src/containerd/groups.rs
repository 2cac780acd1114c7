//! `supplementalGroupsPolicy: Strict` for a containerd whose CRI does not know it.
//!
//! Up to version 2 containerd always adds the groups that the image's `/etc/group` gives to the user. They are in
//! the OCI spec of a container that was created; until it starts, containerd's own API can change that spec, as
//! its CRI plugin does for a resize. Commands that are run in the container later get their groups from there too.

use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::{GetContainerRequest, UpdateContainerRequest};
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::image::in_namespace;

/// Whether this is a containerd at all.
pub async fn can_set_groups(channel: Channel) -> Result<bool, Status> {
    let nobody = GetContainerRequest { id: "minik8s-looks-for-containerd".to_owned() };
    match ContainersClient::new(channel).get(in_namespace(nobody)).await {
        Ok(_) => Ok(true),
        Err(status) if status.code() == Code::NotFound => Ok(true),
        Err(status) if status.code() == Code::Unimplemented => Ok(false),
        Err(status) => Err(status),
    }
}

/// Gives a container that was not started exactly these groups beside its main one.
pub async fn set_groups(channel: Channel, id: &str, groups: &[i64]) -> Result<(), Status> {
    let mut client = ContainersClient::new(channel);
    let get = in_namespace(GetContainerRequest { id: id.to_owned() });
    let mut container = client.get(get).await?.into_inner().container;
    let spec = container.as_mut().and_then(|container| container.spec.as_mut());
    let spec = spec.ok_or_else(|| Status::internal("the container has no OCI spec"))?;
    spec.value = with_groups(&spec.value, groups)
        .ok_or_else(|| Status::internal("the container's OCI spec is not understood"))?;
    client.update(in_namespace(UpdateContainerRequest { container, update_mask: None })).await?;
    Ok(())
}

/// The spec with these groups. The main one is among them, as the runtime has it too.
fn with_groups(spec: &[u8], groups: &[i64]) -> Option<Vec<u8>> {
    let mut spec: Value = serde_json::from_slice(spec).ok()?;
    let user = spec.get_mut("process")?.get_mut("user")?.as_object_mut()?;
    let mut all = vec![user.get("gid").and_then(Value::as_i64).unwrap_or(0)];
    for group in groups {
        if !all.contains(group) {
            all.push(*group);
        }
    }
    user.insert("additionalGids".to_owned(), json!(all));
    serde_json::to_vec(&spec).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_image_go() {
        let check = |user: Value, groups: &[i64], want: Value| {
            let spec = json!({"ociVersion": "1.0.2", "process": {"user": user, "args": ["sh"]}});
            let got: Value =
                serde_json::from_slice(&with_groups(spec.to_string().as_bytes(), groups).unwrap()).unwrap();
            assert_eq!(got["process"]["user"], want);
            assert_eq!(got["process"]["args"], json!(["sh"]), "the rest stays");
        };
        check(
            json!({"uid": 1000, "gid": 1000, "additionalGids": [1000, 2000, 60]}),
            &[60],
            json!({"uid": 1000, "gid": 1000, "additionalGids": [1000, 60]}),
        );
        check(json!({"uid": 5, "gid": 7}), &[], json!({"uid": 5, "gid": 7, "additionalGids": [7]}));
        check(json!({"uid": 5, "gid": 7}), &[7, 8, 8], json!({"uid": 5, "gid": 7, "additionalGids": [7, 8]}));
        assert_eq!(with_groups(b"rubbish", &[]), None);
        assert_eq!(with_groups(b"{}", &[]), None);
    }
}
