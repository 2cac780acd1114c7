//! What acknowledgements are called: OBJECT.NODE, so that a node may write its own alone. OBJECT has no dot, which names of
//! nodes may have, and begins with the kind: whatever users call one object, its acknowledgement is never another's. A name
//! says nothing of what was acknowledged.

use minik8s_meta::mesh::MeshAck;

const VIRTUAL_SERVICE: &str = "virtualservice-";

/// OBJECT of a MeshRoute. One that was made of routes of the Gateway API is called after its Service and port, and has the
/// uid of the ServiceRoute.
pub fn of_route(route: &str, uid: &str) -> String {
    match route.rsplit_once('.') {
        Some((_, port)) => format!("serviceroute-{uid}-{port}"),
        None => format!("{VIRTUAL_SERVICE}{route}"),
    }
}

/// OBJECT of a MeshPolicy, whose own name may have dots.
pub fn of_policy(uid: &str) -> String {
    format!("meshpolicy-{uid}")
}

/// OBJECT and the node.
pub fn parts(ack: &MeshAck) -> Option<(&str, &str)> {
    ack.metadata.name.as_deref()?.split_once('.')
}

/// The VirtualService that it is of, if it is of one.
pub fn virtual_service(ack: &MeshAck) -> Option<&str> {
    parts(ack)?.0.strip_prefix(VIRTUAL_SERVICE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn ack(of: &str) -> MeshAck {
        let name = format!("{of}.n.1");
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"revision": "r"}})).unwrap()
    }

    #[test]
    fn names_of_one_kind_are_never_those_of_another() {
        let uid = "5c9e5f4a-7d0b-4c1e-9b5e-1f6f3f0d2a11";
        let names = [of_policy(uid), of_route("reviews.80", uid)];
        let mut all = BTreeSet::from(names.clone());
        for name in [uid.to_owned(), format!("{uid}-80"), "policy".to_owned()].iter().chain(&names) {
            assert!(all.insert(of_route(name, uid)), "{name}");
        }
        assert_eq!(all.len(), 7);
    }

    #[test]
    fn virtual_service_is_found_by_its_acknowledgement() {
        let reviews = ack(&of_route("reviews", "u"));
        assert_eq!(parts(&reviews), Some(("virtualservice-reviews", "n.1")));
        assert_eq!(virtual_service(&reviews), Some("reviews"));
        assert_eq!(virtual_service(&ack(&of_route("reviews.80", "u"))), None);
        assert_eq!(virtual_service(&ack(&of_policy("u"))), None);
    }
}
