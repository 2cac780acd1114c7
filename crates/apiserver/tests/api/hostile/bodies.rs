//! Bodies that are not what their content type says, too large, too deep, or nothing at all.

use http::Method;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use super::{assert_sane, assert_works, junk};
use crate::cluster::*;
use crate::samples;

const TYPES: [&str; 14] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    APPLY,
    "text/plain",
    "application/cbor",
    "",
    "application/json; charset=utf-16",
    ";;;",
    "application/apply-patch+cbor",
    "*/*",
];

/// A valid body, broken somewhere.
fn broken() -> impl Strategy<Value = Vec<u8>> {
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": samples::pod_spec()})
            .to_string();
    let yaml =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata: &a\n  a: |\n    text\n  b: \"x\"\n"
            .to_owned();
    let seeds = vec![
        pod.into_bytes(),
        yaml.into_bytes(),
        protobuf_seed(),
        br#"[{"op":"add","path":"/data/a","value":"b"}]"#.to_vec(),
    ];
    (
        proptest::sample::select(seeds),
        proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0..4u8), 1..6),
    )
        .prop_map(|(mut bytes, edits)| {
            for (index, byte, edit) in edits {
                let at = index.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
                match edit {
                    0 if !bytes.is_empty() => bytes[at] = byte,
                    1 => bytes.truncate(at),
                    2 => bytes.insert(at, byte),
                    _ => {
                        let tail = bytes[at..].to_vec();
                        bytes.extend(tail);
                    }
                }
            }
            bytes
        })
}

/// The envelope of a protobuf body: magic, then a message with apiVersion, kind and bytes.
fn protobuf_seed() -> Vec<u8> {
    let mut bytes = b"k8s\0".to_vec();
    let type_meta = [&[0x0a, 2][..], b"v1", &[0x12, 9], b"ConfigMap"].concat();
    bytes.extend([0x0a, u8::try_from(type_meta.len()).unwrap()]);
    bytes.extend(type_meta);
    let map = [&[0x0a, 3, 0x0a, 1][..], b"m", &[0x12, 6, 0x0a, 1], b"a", &[0x12, 1], b"b"].concat();
    bytes.extend([0x12, u8::try_from(map.len()).unwrap()]);
    bytes.extend(map);
    bytes
}

#[test]
fn bytes_that_mean_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cluster = runtime.block_on(Cluster::start());
    let admin = cluster.admin();
    runtime.block_on(admin.post(CONFIG_MAPS, config_map("there"))).ok();
    let there = format!("{CONFIG_MAPS}/there?fieldManager=f");
    let targets = vec![
        (Method::POST, CONFIG_MAPS.to_owned()),
        (Method::POST, PODS.to_owned()),
        (Method::PUT, there.clone()),
        (Method::PATCH, there.clone()),
        (Method::DELETE, format!("{CONFIG_MAPS}/none")),
        (Method::POST, format!("{PODS}/p/binding")),
        (Method::POST, format!("{PODS}/p/eviction")),
        (Method::POST, "/api/v1/namespaces/default/serviceaccounts/default/token".to_owned()),
        (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews".to_owned()),
        (Method::PUT, "/api/v1/namespaces/default/finalize".to_owned()),
        (Method::PATCH, "/apis/apps/v1/namespaces/default/deployments/d/scale".to_owned()),
        (Method::GET, CONFIG_MAPS.to_owned()),
    ];
    let bytes = prop_oneof![3 => broken(), 1 => proptest::collection::vec(any::<u8>(), 0..200)];
    let input = (proptest::sample::select(targets), proptest::sample::select(TYPES.to_vec()), bytes);
    let config = Config { cases: 1500, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    let checked = runner.run(&input, |((method, path), content_type, bytes)| {
        runtime.block_on(async {
            let answer = admin.send(method.clone(), &path, content_type, bytes.clone()).await;
            assert_sane(&answer, &format!("{content_type} {}", String::from_utf8_lossy(&bytes)));
            assert_eq!(admin.get(&format!("{CONFIG_MAPS}/there")).await.code, 200);
            if answer.code == 201 && method == Method::POST && answer.body["metadata"]["uid"].is_string() {
                let name = answer.body["metadata"]["name"].as_str().unwrap_or_default();
                admin.delete(&format!("{path}/{name}")).await.ok();
            }
        });
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
    runtime.block_on(assert_works(&admin));
}

#[tokio::test]
async fn too_large_and_too_deep() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    let there = format!("{CONFIG_MAPS}/m?fieldManager=f");
    let huge = 3 * 1024 * 1024 + 1;
    for (method, path, content_type) in [
        (Method::POST, CONFIG_MAPS, "application/json"),
        (Method::POST, CONFIG_MAPS, "application/yaml"),
        (Method::PUT, &there, "application/json"),
        (Method::PATCH, &there, MERGE),
        (Method::PATCH, &there, APPLY),
        (Method::DELETE, &there, "application/json"),
        (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", "application/json"),
    ] {
        admin.send(method, path, content_type, vec![b' '; huge]).await.refused(413, "RequestEntityTooLarge");
    }
    let brackets = [
        ("[", ""),
        ("{\"a\":", ""),
        ("[", "]"),
        ("- ", ""),
        ("? ", ""),
        ("a: ", ""),
        ("{a: ", "}"),
        ("!!x ", ""),
        ("&a ", ""),
    ];
    for (open, close) in brackets {
        for count in [100, 200, 5_000, 400_000] {
            let body = format!("{}{}", open.repeat(count), close.repeat(count));
            for (method, path, content_type) in [
                (Method::POST, CONFIG_MAPS, "application/json"),
                (Method::POST, CONFIG_MAPS, "application/yaml"),
                (Method::PATCH, &there, APPLY),
                (Method::PATCH, &there, MERGE),
                (Method::PATCH, &there, JSON_PATCH),
                (Method::PATCH, &there, STRATEGIC),
                (Method::DELETE, &there, "application/yaml"),
                (Method::PATCH, "/apis/apps/v1/namespaces/default/deployments/d/scale", MERGE),
            ] {
                let answer = admin.send(method, path, content_type, body.clone()).await;
                assert_sane(&answer, &body);
                assert!(answer.code >= 400, "{open} x {count} as {content_type} is accepted");
            }
        }
    }
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
        e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    for yaml in [
        laughs,
        "&a [*a]",
        "a: *b",
        "a: 1\na: 2",
        "\t",
        "---\n---\n",
        "{",
        "a: !!binary x",
        "<<: 5",
        "<<: *a",
        "a: .nan\nb: .inf",
        "0x",
        "%YAML 9\n---\n",
        "\u{feff}",
        "a: 1\n...\nb",
        "? {a: 1}\n: 2",
        "1: 2",
        "null: 2",
        "true: 2",
        "[1]: 2",
        "a: 0777777777777777777777777777777777777",
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: y}\ndata: {a: .nan}\n",
    ] {
        for (method, path) in [(Method::POST, CONFIG_MAPS), (Method::PATCH, there.as_str())] {
            let content_type = if method == Method::POST { "application/yaml" } else { APPLY };
            let answer = admin.send(method, path, content_type, yaml).await;
            assert_sane(&answer, yaml);
        }
    }
    let deep = json!({"metadata": {"name": "deep"}, "revision": 1, "data": junk::deep(70)});
    admin.post("/apis/apps/v1/namespaces/default/controllerrevisions", deep).await.refused(400, "BadRequest");
    let deep = json!({"metadata": {"name": "deep"}, "revision": 1, "data": junk::deep(55)});
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    admin.post(path, deep).await.ok();
    admin.get(&format!("{path}/deep")).await.ok();
    assert_works(&admin).await;
}
