//! Image names as users write them, and as containerd stores them.

/// Adds what a short name leaves out: `busybox` is `docker.io/library/busybox:latest`.
pub fn normalize(name: &str) -> String {
    let (path, digest) = match name.split_once('@') {
        Some((path, digest)) => (path, Some(digest)),
        None => (name, None),
    };
    let path = match path.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => path.to_owned(),
        Some(_) => format!("docker.io/{path}"),
        None => format!("docker.io/library/{path}"),
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    match digest {
        Some(digest) => format!("{path}@{digest}"),
        None if last.contains(':') => path,
        None => format!("{path}:latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |name: &str, want: &str| assert_eq!(normalize(name), want);
        check("busybox", "docker.io/library/busybox:latest");
        check("busybox:1", "docker.io/library/busybox:1");
        check("me/app:2", "docker.io/me/app:2");
        check("minik8s.io/busybox:1", "minik8s.io/busybox:1");
        check("localhost/app", "localhost/app:latest");
        check("localhost:5000/app", "localhost:5000/app:latest");
        check("quay.io/a/b@sha256:00", "quay.io/a/b@sha256:00");
        check("", "docker.io/library/:latest");
    }
}
