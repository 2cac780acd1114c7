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
        // Upstream's own answer, and its code, to an applied object with a field that its schema does not have.
        let is_upstreams =
            content_type == APPLY && answer.text().contains("failed to create typed patch object");
        // Its answer, too, to who wants to read what has not been written yet.
        let is_early = answer.code == 504 && answer.text().contains("Too large resource version");
        if (answer.code == 500 && is_upstreams) || is_early {
            return;
        }
        assert!(answer.code < 500, "{}: {} {}", answer.what, answer.code, answer.text());
        if answer.code >= 400 {
            answer.assert_status();
        }
    }
}

/// An object of each kind as somebody sends it.
struct Sample {
    /// Where its kind is made. Nothing is kept: the next one meets the same cluster.
    path: String,
    body: Vec<u8>,
    /// How many of its first bytes say of which kind it is.
    head: usize,
}

/// `write` gets what says the kind, and everything else.
fn samples(write: impl Fn(&Value, &Value) -> (String, String)) -> Vec<Sample> {
    let written = stored().into_iter().map(|(resource, mut object)| {
        let fields = object.as_object_mut().unwrap();
        let kind = json!({"apiVersion": fields.remove("apiVersion"), "kind": fields.remove("kind")});
        let (head, rest) = write(&kind, &object);
        let path = format!("{}?dryRun=All", collection(&resource));
        Sample { path, head: head.len(), body: (head + &rest).into_bytes() }
    });
    written.collect()
}

impl Fuzzed {
    /// Each to the collection of its kind, where it still says which; otherwise to one after the other.
    fn bodies(&self, target: &str, content_type: &str, words: &[&str], samples: &[Sample]) {
        assert!(samples.len() > 40, "{target}: only {} kinds", samples.len());
        let inputs: Vec<&[u8]> = samples.iter().map(|sample| &sample.body[..]).collect();
        let mut turn = 0;
        fuzz(target, COST, Corpus { inputs: &inputs, words }, |input| {
            turn += 1;
            let is_own = |sample: &&Sample| input.starts_with(&sample.body[..sample.head]);
            let to = samples.iter().find(is_own).unwrap_or(&samples[turn % samples.len()]);
            self.send(Method::POST, &to.path, content_type, input);
        });
    }
}

#[test]
fn fuzz_json_bodies() {
    let samples = samples(|kind, rest| {
        let (kind, rest) = (kind.to_string(), rest.to_string());
        (format!("{},", kind.trim_end_matches('}')), rest[1..].to_owned())
    });
    Fuzzed::start().bodies("JSON bodies", "application/json", &WORDS, &samples);
}

#[test]
fn fuzz_yaml_bodies() {
    let yaml = |value: &Value| serde_saphyr::to_string(value).unwrap();
    let mut samples = samples(|kind, rest| (yaml(kind), yaml(rest)));
    // What no program writes, but people do.
    let pods = [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: &l {app: x}}\nspec:\n  containers:\n  - name: c\n    image: i\n    ports: [{containerPort: 80}]\n",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: q\n  annotations:\n    text: |\n      two\n      lines\nspec: {containers: [{name: c, image: \"i\"}], nodeSelector: {a: 'b'}}\n",
        "kind: Pod\napiVersion: v1\nmetadata: {name: r}\nspec: {containers: [{name: c, image: i, env: [{name: A, value: \"\\x41\"}]}]}\n",
    ];
    let head = "kind: Pod\napiVersion: v1\n".len();
    samples.extend(pods.map(|pod| Sample { path: format!("{PODS}?dryRun=All"), body: pod.into(), head }));
    Fuzzed::start().bodies("YAML bodies", "application/yaml", &WORDS, &samples);
}

/// The server writes the bodies itself. Kinds of our own have no such form.
#[test]
fn fuzz_protobuf_bodies() {
    let fuzzed = Fuzzed::start();
    let admin = fuzzed.cluster.admin().accepting(&format!("{PROTOBUF},application/json"));
    // `k8s`, a zero, and the first part, which names the kind: its number, its length, itself.
    let sample = |path: String, body: Vec<u8>| Sample { path, head: 6 + usize::from(body[5]), body };
    let mut samples = Vec::new();
    for (resource, object) in stored() {
        let path = format!("{}?dryRun=All", collection(&resource));
        let made = fuzzed.runtime.block_on(admin.post(&path, object));
        if made.bytes.starts_with(b"k8s\0") {
            samples.push(sample(path, made.bytes.to_vec()));
        }
    }
    for body in [config_map_body(&[]), config_map_body(&[0x20, 1])] {
        samples.push(sample(format!("{CONFIG_MAPS}?dryRun=All"), body));
    }
    fuzzed.bodies("protobuf bodies", PROTOBUF, &["k8s\u{0}", "v1", "ConfigMap"], &samples);
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
