//! A page that is put together from what is kept is the one that is made anew, whatever happened in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use minik8s_api::{Parse, ReadError, Stored, StoredObject};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const KINDS: [Kind; 6] =
    [Kind::Node, Kind::Pod, Kind::Service, Kind::Endpoints, Kind::EndpointSlice, Kind::Ingress];

const SELECTIONS: [&str; 5] = [
    "",
    "namespace=a",
    "namespace=a&namespace=c",
    "labelSelector=tier%3D1",
    "namespace=b&labelSelector=tier!%3D1",
];

/// Objects by kind and path, each with the revision that it was written at.
#[derive(Default)]
struct Cluster {
    objects: BTreeMap<(Kind, String), (Value, u64)>,
    revision: u64,
}

impl Cluster {
    fn write(&mut self, kind: Kind, namespace: &str, number: u8, look: u8) {
        self.revision += 1;
        let object = object(kind, namespace, number, look);
        self.objects.insert((kind, path(kind, namespace, number)), (object, self.revision));
    }

    fn delete(&mut self, kind: Kind, namespace: &str, number: u8) {
        self.revision += 1;
        self.objects.remove(&(kind, path(kind, namespace, number)));
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = (&str, &(Value, u64))> {
        let of_kind = self.objects.iter().filter(move |((known, _), _)| *known == kind);
        of_kind.map(|((_, path), stored)| (path.as_str(), stored))
    }

    fn lists(&self) -> Lists {
        let parse: Arc<Parse> = Arc::new(|object: &StoredObject| {
            serde_json::from_slice(&object.bytes).map_err(|error| ReadError(error.to_string()))
        });
        let mut lists = Lists::default();
        for kind in KINDS {
            let stored = |(path, (object, version)): (&str, &(Value, u64))| {
                let bytes = Bytes::from(object.to_string());
                StoredObject::new(format!("/x/{path}").into(), 3, *version, bytes, parse.clone())
            };
            let objects = self.of(kind).map(stored).collect();
            lists.put(kind, Stored { revision: self.revision, objects });
        }
        lists
    }

    fn whole(&self) -> Objects {
        let mut objects = Objects::default();
        for kind in KINDS {
            objects.put(kind, self.of(kind).map(|(_, (object, _))| object.clone()).collect());
        }
        objects
    }
}

fn path(kind: Kind, namespace: &str, number: u8) -> String {
    match kind {
        Kind::Node => format!("o{number}"),
        _ => format!("{namespace}/o{number}"),
    }
}

/// `look` decides everything that may change of it.
fn object(kind: Kind, namespace: &str, number: u8, look: u8) -> Value {
    let labels =
        json!({"tier": (look % 3).to_string(), "kubernetes.io/service-name": format!("o{}", look % 4)});
    let mut metadata =
        json!({"name": format!("o{number}"), "labels": labels, "annotations": {"n": look.to_string()}});
    if kind != Kind::Node {
        metadata["namespace"] = namespace.into();
    }
    let address = format!("10.0.{number}.{look}");
    let reference = |more: u8| match (look + more) % 5 {
        0 => json!({"kind": "Node", "name": "o1"}),
        1 => json!({"kind": "Pod", "name": format!("o{}", more % 4), "namespace": "a"}),
        _ => json!({"kind": "Pod", "name": format!("o{}", (look + more) % 4)}),
    };
    let ports = json!([{"name": "http", "port": 80}, {"name": "x", "port": 9100}]);
    match kind {
        Kind::Node => json!({"metadata": metadata, "status": {"addresses": [
            {"type": "InternalIP", "address": address}]}}),
        Kind::Pod => json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "ports": [
                {"containerPort": 80}, {"containerPort": 9000 + u16::from(look)}]}]},
            "status": {"podIP": if look.is_multiple_of(7) { "" } else { address.as_str() }}}),
        Kind::Service => json!({"metadata": metadata, "spec": {"clusterIP": address, "ports": ports}}),
        Kind::Endpoints => json!({"metadata": metadata, "subsets": [{"ports": ports,
            "addresses": [{"ip": "1.1.1.1", "targetRef": reference(0)}, {"ip": "1.1.1.2", "targetRef": reference(1)}],
            "notReadyAddresses": [{"ip": "1.1.1.3", "targetRef": reference(2)}]}]}),
        Kind::EndpointSlice => json!({"metadata": metadata, "ports": ports, "endpoints": [
            {"addresses": ["1.1.1.1"], "targetRef": reference(0)}, {"addresses": ["1.1.1.2"], "targetRef": reference(3)}]}),
        Kind::Ingress => {
            json!({"metadata": metadata, "spec": {"rules": [{"host": format!("h{look}.example.com")}]}})
        }
    }
}

fn check(kept: &mut [Rendered], cluster: &Cluster, selection: &str) {
    let (lists, whole) = (cluster.lists(), cluster.whole());
    let selection = Selection::parse(selection).unwrap();
    for (name, kept) in Role::names().into_iter().zip(kept) {
        let role = Role::parse(name).unwrap();
        let page = kept.page(role, &lists, &selection).unwrap();
        let anew = role.page(&whole, &selection);
        assert_eq!(String::from_utf8_lossy(&page.json), String::from_utf8_lossy(&anew), "{name}");
        let again = kept.page(role, &lists, &selection).unwrap();
        assert_eq!((again.written, &again.json, &again.tag), (0, &page.json, &page.tag), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn incremental_pages_equal_pages_made_anew(
        steps in prop::collection::vec(
            prop::collection::vec((0..6_usize, 0..3_usize, 0..4_u8, 0..12_u8, 0..4_u8), 0..12),
            1..8,
        ),
        asked in prop::collection::vec(0..SELECTIONS.len(), 8),
    ) {
        let mut cluster = Cluster::default();
        let mut kept: Vec<Rendered> = (0..Role::COUNT).map(|_| Rendered::default()).collect();
        for (changes, asked) in steps.iter().zip(asked) {
            for (kind, namespace, number, look, what) in changes {
                let namespace = ["a", "b", "c"][*namespace];
                match what {
                    0 => cluster.delete(KINDS[*kind], namespace, *number),
                    _ => cluster.write(KINDS[*kind], namespace, *number, *look),
                }
            }
            check(&mut kept, &cluster, SELECTIONS[asked]);
            check(&mut kept, &cluster, "");
        }
    }
}

fn page(kept: &mut Rendered, role: Role, cluster: &Cluster) -> Page {
    kept.page(role, &cluster.lists(), &Selection::default()).unwrap()
}

#[test]
fn only_what_changed_is_written() {
    let (mut cluster, mut pods, mut slices) = (Cluster::default(), Rendered::default(), Rendered::default());
    for number in 0..4 {
        cluster.write(Kind::Pod, "b", number, 1);
        cluster.write(Kind::EndpointSlice, "b", number, number + 6);
    }
    let first = page(&mut pods, Role::Pod, &cluster);
    assert_eq!((first.written, page(&mut slices, Role::EndpointSlice, &cluster).written), (4, 4));
    cluster.write(Kind::Pod, "b", 0, 2);
    let second = page(&mut pods, Role::Pod, &cluster);
    assert_eq!(second.written, 1);
    assert_ne!(first.tag, second.tag);
    // Two of the slices name pod 0 of their namespace, and one the Service that is there for the first time.
    assert_eq!(page(&mut slices, Role::EndpointSlice, &cluster).written, 2);
    cluster.write(Kind::Service, "b", 2, 0);
    assert_eq!(page(&mut slices, Role::EndpointSlice, &cluster).written, 1);
    cluster.write(Kind::Node, "", 0, 0);
    assert_eq!(page(&mut slices, Role::EndpointSlice, &cluster).written, 0, "nodes are not their matter");
}

#[test]
fn deleted_objects_are_not_kept() {
    let (mut cluster, mut pods) = (Cluster::default(), Rendered::default());
    (0..4).for_each(|number| cluster.write(Kind::Pod, "b", number, 1));
    page(&mut pods, Role::Pod, &cluster);
    let all = pods.kept();
    (0..3).for_each(|number| cluster.delete(Kind::Pod, "b", number));
    page(&mut pods, Role::Pod, &cluster);
    assert_eq!(pods.kept(), all / 4);
}

/// The same version may then stand for another object.
#[test]
fn a_store_that_was_taken_back_is_read_anew() {
    let (mut before, mut pods) = (Cluster::default(), Rendered::default());
    before.write(Kind::Pod, "b", 0, 1);
    before.write(Kind::Pod, "b", 1, 1);
    page(&mut pods, Role::Pod, &before);
    let mut after = Cluster::default();
    after.write(Kind::Pod, "b", 0, 5);
    check(&mut [Rendered::default(), pods], &after, "");
}
