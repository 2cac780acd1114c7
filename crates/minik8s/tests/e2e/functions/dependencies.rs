//! What functions depend on, fetched by pods of their namespace: packages of the archive itself, so that no index is needed.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minik8s_functions::zip;
use serde_json::{Value, json};

use super::site::{Site, eventually};

const MAIN: &str = "
import greet, probe

def main(params):
    return {'greeting': greet.hello(params.get('name')), **probe.FOUND}
";

/// It runs while it is built, as a hostile package would, and tells what it has found.
const SETUP: &str = "
import os, setuptools

def writes(path):
    try:
        with open(path, 'w'):
            return True
    except OSError:
        return False

found = {
    'uid': os.getuid(), 'token': os.path.exists('/var/run/secrets/kubernetes.io'), 'setting': os.environ.get('GREETING'),
    'own': [name for name in os.environ if name.startswith('FN_')], 'root': writes('/fn/x') or writes('/usr/lib/x'),
}
with open('probe.py', 'w') as out:
    out.write(f'FOUND = {found!r}')
setuptools.setup(name='probe', version='1', py_modules=['probe'])
";

fn wheel() -> Vec<u8> {
    let files = [
        ("greet/__init__.py", "def hello(name): return f'hello {name}'\n"),
        ("greet-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n"),
        (
            "greet-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        (
            "greet-1.0.dist-info/RECORD",
            "greet/__init__.py,,\ngreet-1.0.dist-info/METADATA,,\ngreet-1.0.dist-info/WHEEL,,\ngreet-1.0.dist-info/RECORD,,\n",
        ),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    zip::pack(&files).unwrap()
}

fn files(requirements: &str) -> Vec<(String, Vec<u8>)> {
    vec![
        ("main.py".to_owned(), MAIN.into()),
        ("requirements.txt".to_owned(), requirements.into()),
        ("greet-1.0-py3-none-any.whl".to_owned(), wheel()),
        ("probe/setup.py".to_owned(), SETUP.into()),
    ]
}

fn folder(root: &Path, files: &[(String, Vec<u8>)]) -> String {
    for (name, content) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root.to_str().unwrap().to_owned()
}

/// Images in the namespace's repositories whose names begin so.
fn images(site: &Site, prefix: &str) -> Vec<Value> {
    let all = site.get("imagerepositories")["items"].as_array().cloned().unwrap_or_default();
    let ours = all.iter().filter(|one| one["metadata"]["name"].as_str().unwrap().starts_with(prefix));
    ours.flat_map(|one| one["tags"].as_array().cloned().unwrap_or_default()).collect()
}

fn built(site: &Site) -> Vec<Value> {
    images(site, "function-dependencies.")
}

/// By the program and by an object alone; fetched once; and a failure leaves what serves.
pub fn are_fetched_by_pods(site: &Site) {
    let dir = tempfile::tempdir().unwrap();
    site.kubectl(&["create", "configmap", "function-builds", "--from-literal=GREETING=hi"]);
    let archive = files("./greet-1.0-py3-none-any.whl\n./probe\n");
    let from = folder(dir.path(), &archive);
    let made = site.run(&["create", "greeter", "--from", &from]);
    assert!(made.contains("is being fetched") && made.contains("revision 1 serves"), "{made}");
    let answer = site.call("greeter", &json!({"name": "you"}));
    let expected = json!({
        "greeting": "hello you", "uid": 65_532, "token": false, "setting": "hi", "own": [], "root": false,
    });
    assert_eq!(answer.json, expected, "{answer:?}");
    assert_eq!(built(site).len(), 1);
    eventually("the build has ended", || {
        let pods = site.kubectl(&["get", "pods", "-l", "minik8s.io/function-build", "-o", "name"]);
        pods.trim().is_empty()
    });

    let zip = STANDARD.encode(zip::pack(&archive_in_order(archive)).unwrap());
    site.apply(&format!(
        "apiVersion: minik8s.io/v1\nkind: Function\nmetadata: {{name: applied}}\nspec: {{runtime: python3.11, code: {{zip: {zip}}}}}\n"
    ));
    site.kubectl(&["wait", "function/applied", "--for=condition=RevisionReady", "--timeout=180s"]);
    assert_eq!(site.call("applied", &json!({"name": 2})).json["greeting"], "hello 2");
    assert_eq!(built(site).len(), 1, "the same is not built again");

    let from = folder(dir.path(), &files("greet ==== 1\n"));
    let told = site.fails(&["update", "greeter", "--from", &from]);
    assert!(told.contains("revision 2 does not start (BuildFailed)"), "{told}");
    assert!(told.contains("pip cannot fetch") && told.contains("Invalid requirement"), "{told}");
    assert_eq!(site.call("greeter", &json!({"name": "old"})).json["greeting"], "hello old");
    of_node(site);
}

/// As a folder is packed.
fn archive_in_order(mut files: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    files.sort();
    files
}

fn of_node(site: &Site) {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("index.js", "exports.handler = (event) => ({ padded: require('left')(event.text) });"),
        ("package.json", r#"{"name": "app", "version": "1.0.0", "dependencies": {"left": "file:./left"}}"#),
        ("left/package.json", r#"{"name": "left", "version": "1.0.0", "main": "left.js"}"#),
        ("left/left.js", "module.exports = (text) => text.padStart(5);"),
    ];
    let from = folder(dir.path(), &files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())));
    site.run(&["create", "padder", "--from", &from, "--runtime", "nodejs"]);
    assert_eq!(site.call("padder", &json!({"text": "abc"})).json, json!({"padded": "  abc"}));
    assert_eq!(built(site).len(), 2);
}

/// They go with the last function that uses them, and so does code.
pub fn go_with_their_functions(site: &Site) {
    assert_eq!(images(site, "function-code.greeter").len(), 2, "each revision is there");
    let maps = site.get("configmaps");
    let maps = maps["items"].as_array().unwrap().iter().filter(|map| map["data"]["spec.json"].is_string());
    let leftover: Vec<&Value> = maps
        .filter(|map| map["data"].as_object().unwrap().len() > 1 || !map["binaryData"].is_null())
        .collect();
    assert!(leftover.is_empty(), "code is in the registry alone: {leftover:?}");
    site.run(&["delete", "greeter", "padder"]);
    eventually("what only they used goes", || built(site).len() == 1);
    assert_eq!(site.call("applied", &json!({"name": 3})).json["greeting"], "hello 3");
    site.run(&["delete", "applied"]);
    eventually("the rest goes", || built(site).is_empty());
    for function in ["greeter", "padder", "applied"] {
        let left = || images(site, &format!("function-code.{function}"));
        eventually("and their code", || left().is_empty());
    }
}
