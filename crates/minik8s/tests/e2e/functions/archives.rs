//! Archives that are too large for a Function: `minik8s function` pushes them to the registry, and nodes take them from there.

use serde_json::json;

use super::site::{Site, eventually};

const MAIN: &str = "
import os

def main(params):
    return {'bytes': os.path.getsize(os.path.join(os.path.dirname(__file__), 'model.bin')), 'revision': REVISION}
";

/// What no packer makes smaller.
pub fn noise(seed: u32, size: usize) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(size)
    .collect()
}

fn folder(revision: u32, size: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let main = MAIN.replace("REVISION", &revision.to_string());
    std::fs::write(folder.path().join("main.py"), main).unwrap();
    std::fs::write(folder.path().join("model.bin"), noise(revision, size)).unwrap();
    folder
}

/// What the node fetches itself (1 MiB), what it leaves to containerd (9 MiB), and back.
pub fn larger_than_a_function(site: &Site) {
    for (revision, size) in [(1, 1 << 20), (2, 9 << 20)] {
        let verb = if revision == 1 { "create" } else { "update" };
        let from = folder(revision, size);
        let made = site.run(&[verb, "model", "--from", from.path().to_str().unwrap()]);
        assert!(made.contains(&format!("revision {revision} serves")), "{made}");
        assert_eq!(site.call("model", &json!({})).json, json!({"bytes": size, "revision": revision}));
        let code = site.get("function/model")["spec"]["code"].clone();
        let image = code["image"].as_str().unwrap_or_default();
        assert!(image.starts_with("registry.minik8s.local/one/function-code.model@sha256:"), "{code}");
        assert_eq!(code.as_object().unwrap().len(), 1, "{code}");
    }
    site.run(&["rollback", "model"]);
    assert_eq!(site.call("model", &json!({})).json, json!({"bytes": 1 << 20, "revision": 1}));

    let needy = folder(3, 1 << 20);
    std::fs::write(needy.path().join("requirements.txt"), "greet==1\n").unwrap();
    let told = site.fails(&["update", "model", "--from", needy.path().to_str().unwrap()]);
    assert!(told.contains("dependencies are not fetched") && told.contains("--target vendor"), "{told}");

    site.run(&["delete", "model"]);
    let left = || {
        let all = site.get("imagerepositories")["items"].as_array().cloned().unwrap_or_default();
        let of_model = all.iter().find(|one| one["metadata"]["name"] == "function-code.model");
        of_model.is_some_and(|one| one["tags"].as_array().is_some_and(|tags| !tags.is_empty()))
    };
    eventually("its code goes with it", || !left());
}
