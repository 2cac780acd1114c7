use std::io::Cursor;

use super::*;
use crate::image::Recipe;

fn archive(members: &[(&str, &[u8])]) -> Cursor<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    Cursor::new(tar.into_inner().unwrap())
}

#[test]
fn a_recipe_can_be_read_back() {
    let mut bytes = Vec::new();
    Recipe::new("busybox:1").file("bin/sh", 0o755, b"#!".to_vec()).write(&mut bytes).unwrap();
    let images = Archive::open(Cursor::new(bytes)).unwrap().images().unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].names, ["docker.io/library/busybox:1"]);
    let kinds: Vec<_> = images[0].blobs.iter().map(|b| b.descriptor.media_type.as_str()).collect();
    assert_eq!(kinds, [manifest::CONFIG, manifest::LAYER, manifest::MANIFEST]);
    assert_eq!(images[0].blobs[2].children.len(), 2);
    assert_eq!(images[0].id(), Some(images[0].blobs[0].descriptor.digest.as_str()));
    let mut of_two_platforms = images[0].clone();
    of_two_platforms.blobs.push(images[0].blobs[2].clone());
    assert_eq!(of_two_platforms.id(), None);
}

#[test]
fn a_docker_archive_gets_a_manifest() {
    let manifest =
        br#"[{"Config":"c.json","RepoTags":["app:1","app:2"],"Layers":["l/layer.tar","l/layer.tar"]}]"#;
    let file = archive(&[("manifest.json", manifest), ("c.json", b"{}"), ("l/layer.tar", b"\x1f\x8bx")]);
    let images = Archive::open(file).unwrap().images().unwrap();
    assert_eq!(images[0].names, ["docker.io/library/app:1", "docker.io/library/app:2"]);
    // The layer appears twice in the image and once in the store.
    assert_eq!(images[0].blobs.len(), 3);
    assert_eq!(images[0].blobs[0].descriptor.media_type, "application/vnd.oci.image.layer.v1.tar+gzip");
    let Content::Bytes(document) = &images[0].blobs[2].content else { panic!("manifest in memory") };
    let document: Manifest = serde_json::from_slice(document).unwrap();
    assert_eq!(document.layers.len(), 2);
}

#[test]
fn bad_archives_are_told_apart() {
    let check = |members: &[(&str, &[u8])], want: &str| {
        let error = Archive::open(archive(members)).and_then(|mut a| a.images()).unwrap_err();
        assert!(format!("{error:?}").starts_with(want), "{error:?} should be {want}");
    };
    check(&[("readme", b"hello")], "NotAnImage");
    check(&[("manifest.json", b"{")], "Malformed");
    check(&[("manifest.json", br#"[{"Config":"c","Layers":[]}]"#)], "Missing");
    check(&[("manifest.json", br#"[{"Config":"c","Layers":[]}]"#), ("c", b"{}")], "NoName");
    check(&[("index.json", br#"{"schemaVersion":2,"manifests":[]}"#)], "NoName");
}

#[test]
fn garbage_is_an_error() {
    assert!(Archive::open(Cursor::new(vec![7; 4096])).is_err());
}

#[test]
fn links_that_go_round_are_missing_members() {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, target) in [("manifest.json", "b"), ("b", "manifest.json")] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, name, target).unwrap();
    }
    let file = Cursor::new(tar.into_inner().unwrap());
    let error = Archive::open(file).and_then(|mut a| a.images()).unwrap_err();
    assert!(matches!(error, ArchiveError::Missing(_)), "{error:?}");
}

#[test]
fn member_paths() {
    let check = |name: &str, target: &str, want: &str| assert_eq!(beside(name, target), want);
    check("a/layer.tar", "../b/layer.tar", "b/layer.tar");
    check("a/layer.tar", "/b", "b");
    check("x", "../../../etc/passwd", "etc/passwd");
}
