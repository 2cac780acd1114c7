//! kubectl 1.32 and newer send protobuf, older ones JSON: the same commands must store the same objects.
//! Where only one of these is installed there is nothing to compare; what they send is then still covered by
//! the golden bodies of the protobuf crate.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::harness::{Kubectl, Server, installed};

/// Run in a namespace of each version's own.
const COMMANDS: &[&str] = &[
    "create configmap c --from-literal=x=y --from-literal=empty=",
    "create secret generic s --from-literal=p=q",
    "create serviceaccount a",
    "create role r --verb=get,list --resource=pods,deployments.apps --resource-name=one",
    "create rolebinding b --role=r --user=jane --group=g",
    "create quota q --hard=pods=100,services=50",
    "create poddisruptionbudget d --selector=app=x --min-available=50%",
    "create deployment d --image=busybox --replicas=0 --port=80",
    "create cronjob c --image=busybox --schedule=@hourly --restart=OnFailure -- date",
    "create job j --from=cronjob/c",
    "create service clusterip s --tcp=80:8080 --tcp=443",
    "create service externalname e --external-name=example.com",
    "create ingress i --rule=h.example/p*=s:80,tls=t --class=c --default-backend=d:http",
    "expose deployment d --name=exposed --port=80 --target-port=http",
    "run p --image=busybox --restart=Never --env=A=B --command -- sleep 1",
    "create token a --duration=1h",
    "auth can-i create pods",
    "delete pod p --grace-period=0 --force",
];

const KINDS: &str = "configmaps,secrets,serviceaccounts,roles,rolebindings,resourcequotas,\
    poddisruptionbudgets,deployments,cronjobs,jobs,services,ingresses";

#[test]
fn every_kubectl_stores_the_same() {
    let server = Server::start();
    let sends_protobuf = |kubectl: &Kubectl| kubectl.minor >= 32;
    let versions = installed();
    let kubectl = |program: &PathBuf| Kubectl::new(&server, program, "stored");
    let (newer, older): (Vec<_>, Vec<_>) = versions.iter().map(kubectl).partition(sends_protobuf);
    let Some(old) = older.last() else { return eprintln!("no kubectl that sends JSON") };
    let expected = stored_by(old);
    assert!(expected.len() > 12, "{:?}", expected.keys());
    for newer in &newer {
        let got = stored_by(newer);
        for (name, object) in &expected {
            assert_eq!(got.get(name), Some(object), "{name} by kubectl 1.{}", newer.minor);
        }
        assert_eq!(got.len(), expected.len());
    }
}

/// Runs the commands and returns what they left, by kind and name.
fn stored_by(kubectl: &Kubectl) -> Map<String, Value> {
    COMMANDS.iter().for_each(|command| drop(kubectl.run(command)));
    let list = kubectl.run(&format!("get {KINDS} -o json")).json();
    let items = list["items"].as_array().expect("a list");
    let named = items.iter().map(|object| {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        (name, comparable(object, &kubectl.namespace))
    });
    named.collect()
}

/// The object without what differs between any two objects, and without what controllers write.
fn comparable(object: &Value, namespace: &str) -> Value {
    let text = object.to_string().replace(&format!("\"{namespace}\""), "\"namespace\"");
    let mut object: Value = serde_json::from_str(&text).expect("JSON");
    object.as_object_mut().expect("an object").remove("status");
    blank(&mut object);
    object
}

fn blank(value: &mut Value) {
    const OWN: &[&str] = &[
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "clusterIP",
        "clusterIPs",
        "generation",
        "deployment.kubernetes.io/revision",
        "ca.crt",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|name, _| !OWN.contains(&name.as_str()));
            map.values_mut().for_each(blank);
        }
        Value::Array(list) => list.iter_mut().for_each(blank),
        _ => {}
    }
}
