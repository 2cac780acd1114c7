//! `images`: other names, tags and digests for the images of containers.

use serde_json::Value;

use super::file::Image;

/// In all containers, wherever they stand.
pub fn change(value: &mut Value, images: &[Image]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, images)),
        Value::Object(map) => {
            for (field, below) in map.iter_mut() {
                if let ("containers" | "initContainers", Value::Array(containers)) =
                    (field.as_str(), &mut *below)
                {
                    containers.iter_mut().for_each(|container| change_one(container, images));
                }
                change(below, images);
            }
        }
        _ => {}
    }
}

fn change_one(container: &mut Value, images: &[Image]) {
    for image in images {
        let changed = container["image"].as_str().and_then(|old| changed(old, image));
        if let Some(new) = changed {
            container["image"] = new.into();
        }
    }
}

fn changed(old: &str, image: &Image) -> Option<String> {
    let (rest, digest) = old.split_once('@').map_or((old, ""), |(rest, digest)| (rest, digest));
    // A colon before the last slash is a registry's port.
    let colon = rest.rfind(':').filter(|colon| !rest[*colon..].contains('/'));
    let (name, tag) = colon.map_or((rest, ""), |colon| (&rest[..colon], &rest[colon + 1..]));
    if name != image.name {
        return None;
    }
    let name = if image.new_name.is_empty() { name } else { &image.new_name };
    let (tag, digest) = match (image.new_tag.as_str(), image.digest.as_str()) {
        ("", "") => (tag.to_owned(), digest),
        ("", new) => (String::new(), new),
        (new, "") => (new.to_owned(), ""),
        (tag, digest) => (tag.to_owned(), digest),
    };
    let tag = format!("{tag}{}", image.tag_suffix);
    let tag = if tag.is_empty() { tag } else { format!(":{tag}") };
    let digest = if digest.is_empty() { String::new() } else { format!("@{digest}") };
    Some(format!("{name}{tag}{digest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_anew() {
        let check = |old: &str, [name, new_name, new_tag, digest]: [&str; 4], expected: Option<&str>| {
            let text = str::to_owned;
            let image = Image {
                name: text(name),
                new_name: text(new_name),
                new_tag: text(new_tag),
                digest: text(digest),
                tag_suffix: String::new(),
            };
            assert_eq!(changed(old, &image).as_deref(), expected, "{old}");
        };
        check("nginx", ["nginx", "", "2", ""], Some("nginx:2"));
        check("nginx:1", ["nginx", "my/nginx", "", ""], Some("my/nginx:1"));
        check("nginx:1", ["nginx", "", "", "sha256:a"], Some("nginx@sha256:a"));
        check("host:5000/nginx", ["nginx", "", "2", ""], None);
        check("host:5000/nginx", ["host:5000/nginx", "", "2", ""], Some("host:5000/nginx:2"));
        check("host:5000/nginx@sha256:a", ["host:5000/nginx", "", "2", ""], Some("host:5000/nginx:2"));
    }
}
