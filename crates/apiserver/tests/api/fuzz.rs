//! Bodies, patches and selectors that were good once and are broken at random: whatever comes, the answer is not a
//! fault of the server's (a panic would be a 500). See `minik8s_fuzz`.

use http::Method;
use minik8s_fuzz::{Corpus, fuzz};
use serde_json::{Value, json};

use crate::cluster::*;
use crate::protobuf::{PROTOBUF, config_map_body};
use crate::samples::{collection, stored};

/// A request takes as long as a hundred parsed messages.
const COST: u64 = 20;
const LONGEST_QUERY: usize = 60_000;

const WORDS: [&str; 16] = [
    "null",
    "{}",
    "[]",
    "\"\"",
    "true",
    "1e400",
    "\"metadata\":",
    "\"name\":",
    "\"spec\":",
    "\\u0000",
    "\\ud800",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "\n---\n",
];

struct Fuzzed {
    runtime: tokio::runtime::Runtime,
    cluster: Cluster,
}

impl Fuzzed {
    fn start() -> Fuzzed {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cluster = runtime.block_on(Cluster::start());
        Fuzzed { runtime, cluster }
    }

    /// Sends it; whatever the answer is, it is no fault of the server's.
    fn send(&self, method: Method, path: &str, content_type: &str, body: &[u8]) {
        let admin = self.cluster.admin();
        let answer = self.runtime.block_on(admin.send(method, path, content_type, body.to_vec()));
        // Upstream's own answer to a field that its schema does not have.
        if answer.code == 500 && answer.text().contains("failed to create typed patch object") {
            return;
        }
        assert!(answer.code < 500, "{}: {} {}", answer.what, answer.code, answer.text());
        if answer.code >= 400 {
            answer.assert_status();
        }
    }
}

/// An object of every kind, in JSON, to where its kind is made. Nothing is kept: the next one meets the same cluster.
#[test]
fn fuzz_json_bodies() {
    let fuzzed = Fuzzed::start();
    let samples: Vec<(String, String)> = stored()
        .iter()
        .map(|(resource, object)| (format!("{}?dryRun=All", collection(resource)), object.to_string()))
        .collect();
    let inputs: Vec<&[u8]> = samples.iter().map(|(_, body)| body.as_bytes()).collect();
    let mut turn = 0;
    fuzz("JSON bodies", COST, Corpus { inputs: &inputs, words: &WORDS }, |input| {
        // The collection of its kind, where it still says which; otherwise one after the other.
        turn += 1;
        let kind = |body: &[u8]| {
            serde_json::from_slice::<Value>(body)
                .ok()
                .and_then(|object| object["kind"].as_str().map(str::to_owned))
        };
        let own = kind(input).and_then(|kind| {
            let mark = format!("\"kind\":\"{kind}\"");
            samples.iter().find(|(_, body)| body.contains(&mark))
        });
        let (path, _) = own.unwrap_or(&samples[turn % samples.len()]);
        fuzzed.send(Method::POST, path, "application/json", input);
    });
}

#[test]
fn fuzz_yaml_bodies() {
    let fuzzed = Fuzzed::start();
    let inputs: [&[u8]; 3] = [
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: &l {app: x}}\nspec:\n  containers:\n  - name: c\n    image: i\n    ports: [{containerPort: 80}]\n",
        b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: q\n  annotations:\n    text: |\n      two\n      lines\nspec: {containers: [{name: c, image: \"i\"}], nodeSelector: {a: 'b'}}\n",
        b"kind: Pod\napiVersion: v1\nmetadata: {name: r}\nspec: {containers: [{name: c, image: i, env: [{name: A, value: \"\\x41\"}]}]}\n",
    ];
    fuzz("YAML bodies", COST, Corpus { inputs: &inputs, words: &WORDS }, |input| {
        fuzzed.send(Method::POST, &format!("{PODS}?dryRun=All"), "application/yaml", input);
    });
}

#[test]
fn fuzz_protobuf_bodies() {
    let fuzzed = Fuzzed::start();
    let (plain, immutable) = (config_map_body(&[]), config_map_body(&[0x20, 1]));
    let inputs: [&[u8]; 2] = [&plain, &immutable];
    fuzz(
        "protobuf bodies",
        COST,
        Corpus { inputs: &inputs, words: &["k8s\u{0}", "v1", "ConfigMap"] },
        |input| {
            fuzzed.send(Method::POST, &format!("{CONFIG_MAPS}?dryRun=All"), PROTOBUF, input);
        },
    );
}

#[test]
fn fuzz_patches() {
    let fuzzed = Fuzzed::start();
    let admin = fuzzed.cluster.admin();
    fuzzed.runtime.block_on(admin.post(PODS, pod("p"))).ok();
    let json_patch = json!([
        {"op": "add", "path": "/metadata/labels/x", "value": "y"},
        {"op": "test", "path": "/spec/containers/0/name", "value": "c"},
        {"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/z"},
    ]);
    let strategic = json!({"spec": {"containers": [{"name": "c", "$patch": "merge", "image": "j"}],
        "$setElementOrder/containers": [{"name": "c"}]}, "metadata": {"labels": {"$patch": "replace", "a": "b"}}});
    let apply = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "k"}]}});
    let bodies = [json_patch, strategic, apply].map(|body| body.to_string());
    let inputs: Vec<&[u8]> = bodies.iter().map(|body| body.as_bytes()).collect();
    let words =
        ["/-", "/0", "~1", "~2", "$patch", "$retainKeys", "$deleteFromPrimitiveList/", "null", "\"op\":"];
    fuzz("patches", COST, Corpus { inputs: &inputs, words: &words }, |input| {
        for kind in [JSON_PATCH, MERGE, STRATEGIC, APPLY] {
            let path = format!("{PODS}/p?dryRun=All&fieldManager=f");
            fuzzed.send(Method::PATCH, &path, kind, input);
        }
    });
}

#[test]
fn fuzz_selectors() {
    let fuzzed = Fuzzed::start();
    fuzzed.runtime.block_on(fuzzed.cluster.admin().post(PODS, pod("p"))).ok();
    let inputs: [&[u8]; 5] = [
        b"app=web,tier!=back",
        b"app in (a, b),!gone,here",
        b"x notin (y),a==b",
        b"metadata.name=p,status.phase!=Running",
        b"example.com/name=value\\,with",
    ];
    let words = [" in ", " notin ", "(", ")", ",", "!", "==", "\\", "metadata.name", "/"];
    fuzz("selectors", COST, Corpus { inputs: &inputs, words: &words }, |input| {
        let escaped: String = form_urlencoded::byte_serialize(input).collect();
        // No client's library makes a longer address.
        if escaped.len() > LONGEST_QUERY {
            return;
        }
        for parameter in ["labelSelector", "fieldSelector", "continue", "resourceVersion"] {
            fuzzed.send(Method::GET, &format!("{PODS}?{parameter}={escaped}"), "", b"");
        }
    });
}
