use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::Value;

use super::decide::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING};
use super::*;

/// "Signs" by repeating the request; the request's text is the JSON of what it asks for.
struct Fake;

impl Authority for Fake {
    fn read(&self, spec: &CertificateSigningRequestSpec) -> Result<Asked, String> {
        let value: Value = serde_json::from_slice(&spec.request.0).map_err(|e| e.to_string())?;
        let texts = |field: &str| value[field].as_array().cloned().unwrap_or_default().into_iter();
        Ok(Asked {
            node: value["node"].as_str().map(str::to_owned),
            names: texts("names").map(|name| name.as_str().unwrap().to_owned()).collect(),
            addresses: texts("addresses").map(|ip| ip.as_str().unwrap().parse().unwrap()).collect(),
            identity: value["identity"].as_str().map(str::to_owned),
        })
    }

    fn sign(&self, spec: &CertificateSigningRequestSpec, _: Timestamp) -> Result<String, String> {
        self.read(spec).map(|asked| format!("{asked:?}"))
    }

    fn reserved(&self) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
        (["master".to_owned()].into(), ["10.0.0.1".parse().unwrap()].into())
    }
}

fn request(signer: &str, user: &str, groups: &[&str], asked: Value) -> CertificateSigningRequest {
    serde_json::from_value(json!({
        "metadata": {"name": "r", "creationTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {
            "signerName": signer, "username": user, "groups": groups,
            "request": ByteString(asked.to_string().into_bytes()),
        },
    }))
    .unwrap()
}

fn verdict(request: &CertificateSigningRequest, at: &str) -> Decision {
    let nodes = [("old".to_owned(), vec!["10.0.0.9".to_owned()])].into();
    let accounts = [("shop".to_owned(), "web".to_owned())].into();
    let known = Known { nodes: &nodes, accounts: &accounts };
    decide(request, &Fake.read(&request.spec), &known, &Fake.reserved(), at.parse().unwrap())
}

const SOON: &str = "2030-01-01T00:00:01Z";

#[test]
fn who_gets_what_by_themselves() {
    let check = |signer: &str, user: &str, groups: &[&str], asked: Value, expected: &str| {
        let verdict = format!("{:?}", verdict(&request(signer, user, groups, asked.clone()), SOON));
        assert!(verdict.contains(expected), "{signer} {user} {asked}: {verdict}");
    };
    let joiner = ("system:bootstrap:abcdef", ["system:bootstrappers"]);
    let node = ("system:node:new", ["system:nodes"]);
    check(KUBELET_CLIENT, joiner.0, &joiner.1, json!({"node": "new"}), "Approve");
    check(KUBELET_CLIENT, joiner.0, &joiner.1, json!({"node": "old"}), "Deny(\"a node named old is already");
    check(KUBELET_CLIENT, joiner.0, &joiner.1, json!({}), "WaitUntil");
    check(KUBELET_CLIENT, "ann", &[], json!({"node": "new"}), "WaitUntil");
    check(KUBELET_CLIENT, node.0, &node.1, json!({"node": "new"}), "Approve");
    check(KUBELET_CLIENT, node.0, &node.1, json!({"node": "old"}), "WaitUntil");
    check(KUBELET_CLIENT, node.0, &[], json!({"node": "new"}), "WaitUntil");
    check(CLIENT, joiner.0, &joiner.1, json!({"node": "new"}), "WaitUntil");
    check(CLIENT, "ann", &["system:masters"], json!({}), "WaitUntil");
    check("example.com/mine", node.0, &node.1, json!({"node": "new"}), "WaitUntil");
    check(KUBELET_SERVING, joiner.0, &joiner.1, json!({"node": "new", "names": ["new"]}), "WaitUntil");
    let serving = |asked: Value, expected: &str| check(KUBELET_SERVING, node.0, &node.1, asked, expected);
    serving(json!({"node": "new", "names": ["new"], "addresses": ["10.0.0.5"]}), "Approve");
    serving(json!({"node": "old", "names": ["old"]}), "Deny");
    serving(json!({"node": "new", "names": ["kubernetes"]}), "Deny(\"kubernetes is not a name of node new");
    serving(json!({"node": "new", "names": ["new"], "addresses": ["10.0.0.1"]}), "of the API server");
    serving(json!({"node": "new", "names": ["new"], "addresses": ["10.0.0.9"]}), "of old");
    serving(json!({"node": "new", "names": ["new"], "addresses": ["127.0.0.1"]}), "Deny");
    let master = ("system:node:master", ["system:nodes"]);
    check(KUBELET_SERVING, master.0, &master.1, json!({"node": "master", "names": ["master"]}), "Deny");
}

/// A node, stolen or not, gets identities of service accounts whose pods it runs; nobody else gets any by itself.
#[test]
fn identities_are_for_nodes_with_such_a_pod() {
    let identity = |name: &str| json!({"identity": format!("spiffe://cluster.local/ns/shop/sa/{name}")});
    let check = |user: &str, groups: &[&str], asked: Value, at: &str, expected: &str| {
        let verdict = format!("{:?}", verdict(&request(decide::MESH, user, groups, asked.clone()), at));
        assert!(verdict.contains(expected), "{user} {asked}: {verdict}");
    };
    let node = ("system:node:old", ["system:nodes"]);
    let later = "2030-01-01T00:00:11Z";
    check(node.0, &node.1, identity("web"), SOON, "Approve");
    // Its pod may not have been seen yet.
    check(node.0, &node.1, identity("bank"), SOON, "WaitUntil");
    check(
        node.0,
        &node.1,
        identity("bank"),
        later,
        "Deny(\"no pod of service account shop/bank runs on node old",
    );
    check(node.0, &[], identity("web"), later, "WaitUntil");
    check("ann", &["system:authenticated"], identity("web"), later, "WaitUntil");
    check("system:serviceaccount:shop:web", &["system:serviceaccounts"], identity("web"), later, "WaitUntil");
    check(node.0, &node.1, json!({"identity": "spiffe://x/ns/shop"}), later, "WaitUntil");
    let pod = |name: &str, node: &str, phase: &str| -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": node, "serviceAccountName": name, "containers": []}, "status": {"phase": phase}});
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    let pods = [pod("a", "n", "Running"), pod("b", "other", "Running"), pod("c", "n", "Failed")];
    assert_eq!(accounts(&pods, "n"), [("shop".to_owned(), "a".to_owned())].into());
}

#[test]
fn what_is_over_goes() {
    let check = |status: Value, at: &str, expected: Decision| {
        let mut request = request(CLIENT, "ann", &[], json!({}));
        request.status = serde_json::from_value(status).unwrap();
        assert_eq!(verdict(&request, at), expected, "{at}");
    };
    let until = |at: &str| Decision::WaitUntil(at.parse().unwrap());
    let denied = json!({"conditions": [{"type": "Denied", "status": "True"}]});
    let issued = json!({"certificate": "AA==", "conditions": [{"type": "Approved", "status": "True"}]});
    check(json!({}), SOON, until("2030-01-02T00:00:00Z"));
    check(json!({}), "2030-01-02T00:00:00Z", Decision::Remove);
    for over in [denied, issued] {
        check(over.clone(), SOON, until("2030-01-01T01:00:00Z"));
        check(over, "2030-01-01T01:00:00Z", Decision::Remove);
    }
    check(json!({"conditions": [{"type": "Approved", "status": "True"}]}), SOON, Decision::Sign);
}

#[test]
fn a_joining_node_gets_its_certificate() {
    let build = || {
        let mut world = World::default();
        let asked = json!({"node": "new"});
        let mut request = request(KUBELET_CLIENT, "system:bootstrap:a", &["system:bootstrappers"], asked);
        request.metadata.creation_timestamp = None;
        world.insert(&request);
        let mut simulation = Simulation::new(world).with(Certificates { authority: Arc::new(Fake) });
        simulation.stop_at(k8s_openapi::jiff::SignedDuration::from_mins(10));
        simulation
    };
    check_convergence(build, |simulation| {
        let request: CertificateSigningRequest = simulation.world.get(&Key::new("", "r")).unwrap();
        let status = request.status.unwrap();
        assert!(status.certificate.is_some_and(|c| String::from_utf8_lossy(&c.0).contains("new")));
        assert_eq!(status.conditions.unwrap()[0].type_, "Approved");
    });
}
