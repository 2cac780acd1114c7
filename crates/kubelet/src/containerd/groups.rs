//! `supplementalGroupsPolicy: Strict` for a containerd whose CRI does not know it.
//!
//! Up to version 2 containerd always adds the groups that the image's `/etc/group` gives to the user. They are in
//! the OCI spec of a container that was created, and are taken out there ([`super::oci_spec`]). Commands that are run in
//! the container later get their groups from there too.

use containerd_client::services::v1::GetContainerRequest;
use containerd_client::services::v1::containers_client::ContainersClient;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::oci_spec;
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
    oci_spec::change(channel, id, |spec| set(spec, groups)).await
}

/// The main group is among them, as the runtime has it too.
fn set(spec: &mut Value, groups: &[i64]) -> Option<()> {
    let user = spec.get_mut("process")?.get_mut("user")?.as_object_mut()?;
    let mut all = vec![user.get("gid").and_then(Value::as_i64).unwrap_or(0)];
    for group in groups {
        if !all.contains(group) {
            all.push(*group);
        }
    }
    user.insert("additionalGids".to_owned(), json!(all));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_image_go() {
        let check = |user: Value, groups: &[i64], want: Value| {
            let mut spec = json!({"ociVersion": "1.0.2", "process": {"user": user, "args": ["sh"]}});
            set(&mut spec, groups).unwrap();
            assert_eq!(spec["process"]["user"], want);
            assert_eq!(spec["process"]["args"], json!(["sh"]), "the rest stays");
        };
        check(
            json!({"uid": 1000, "gid": 1000, "additionalGids": [1000, 2000, 60]}),
            &[60],
            json!({"uid": 1000, "gid": 1000, "additionalGids": [1000, 60]}),
        );
        check(json!({"uid": 5, "gid": 7}), &[], json!({"uid": 5, "gid": 7, "additionalGids": [7]}));
        check(json!({"uid": 5, "gid": 7}), &[7, 8, 8], json!({"uid": 5, "gid": 7, "additionalGids": [7, 8]}));
        assert_eq!(set(&mut json!("rubbish"), &[]), None);
        assert_eq!(set(&mut json!({}), &[]), None);
    }
}
