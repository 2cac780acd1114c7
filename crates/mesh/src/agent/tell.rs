//! What an agent writes for the control plane: acknowledgements and the progress of RollingUpdates. Each is called
//! OBJECT.NODE, so that a node writes its own alone, and is gone with its object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use minik8s_meta::mesh::{MeshAck, MeshAckSpec, MeshProgress, MeshProgressSpec};
use serde::Serialize;

use super::acks::AckedObject;
use super::followed::Name;
use crate::ack_name;

pub fn progress_of(
    node: &str,
    (namespace, update): &Name,
    spec: &MeshProgressSpec,
) -> (String, MeshProgress) {
    let name = format!("{update}.{node}");
    let path = format!("/apis/internal.minik8s.io/v1/namespaces/{namespace}/meshprogresses/{name}");
    let metadata = owned(name, namespace, ("minik8s.io/v1", "RollingUpdate", update), spec.uid.clone());
    (path, MeshProgress { metadata, spec: spec.clone(), ..MeshProgress::default() })
}

fn owned(
    name: String,
    namespace: &str,
    (version, kind, owner): (&str, &str, &str),
    uid: String,
) -> ObjectMeta {
    let owner = OwnerReference {
        api_version: version.to_owned(),
        kind: kind.to_owned(),
        name: owner.to_owned(),
        uid,
        ..OwnerReference::default()
    };
    ObjectMeta {
        name: Some(name),
        namespace: Some(namespace.to_owned()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

pub fn ack_of(node: &str, object: &AckedObject, uid: String, ack: &MeshAckSpec) -> (String, MeshAck) {
    let (namespace, of, owner) = match object {
        AckedObject::Policy((namespace, name)) => {
            (namespace, ack_name::of_policy(&uid), ("minik8s.io/v1", "MeshPolicy", name.as_str()))
        }
        AckedObject::Route((namespace, name)) => {
            let owner = match name.rsplit_once('.') {
                Some((service, _)) => ("internal.minik8s.io/v1", "ServiceRoute", service),
                None => ("minik8s.io/v1", "VirtualService", name.as_str()),
            };
            (namespace, ack_name::of_route(name, &uid), owner)
        }
    };
    let name = format!("{of}.{node}");
    let path = format!("/apis/internal.minik8s.io/v1/namespaces/{namespace}/meshacks/{name}");
    let metadata = owned(name, namespace, owner, uid);
    (path, MeshAck { metadata, spec: ack.clone(), ..MeshAck::default() })
}

pub async fn tell(client: &Client, (path, object): (String, impl Serialize)) -> kube::Result<()> {
    let body = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
    let request = http::Request::put(path).header("content-type", "application/json").body(body);
    client.request::<serde_json::Value>(request.map_err(kube::Error::HttpError)?).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_of_their_objects() {
        let check = |object: fn(Name) -> AckedObject, name: &str, expected: (&str, &str, &str)| {
            let object = object(("ns".to_owned(), name.to_owned()));
            let (path, made) = ack_of("n.1", &object, "u".to_owned(), &MeshAckSpec::default());
            let owner = &made.metadata.owner_references.as_ref().unwrap()[0];
            let own = made.metadata.name.as_deref().unwrap();
            assert_eq!((own, owner.kind.as_str(), owner.name.as_str()), expected);
            assert_eq!(owner.uid, "u");
            assert!(path.ends_with(&format!("/namespaces/ns/meshacks/{own}")), "{path}");
        };
        check(AckedObject::Route, "reviews", ("virtualservice-reviews.n.1", "VirtualService", "reviews"));
        check(AckedObject::Route, "reviews.80", ("serviceroute-u-80.n.1", "ServiceRoute", "reviews"));
        check(AckedObject::Policy, "strict.all", ("meshpolicy-u.n.1", "MeshPolicy", "strict.all"));
    }
}
