//! What `make install` and `make deb` put on a machine: units that systemd understands and the program accepts, and
//! nothing that `minik8s uninstall` leaves behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const UNITS: [&str; 2] = ["minik8s-server", "minik8s-agent"];

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").canonicalize().unwrap()
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Installed below that folder, as on a machine that has nothing else.
fn install(root: &Path) {
    succeed(
        Command::new(packaging().join("install"))
            .arg(env!("CARGO_BIN_EXE_minik8s"))
            .env("PREFIX", root.join("usr"))
            .env("SYSCONFDIR", root.join("etc")),
    );
}

fn files(root: &Path) -> Vec<String> {
    let listed = succeed(Command::new("find").arg(root).args(["-type", "f", "-printf", "%P\n"]));
    let mut files: Vec<String> = listed.lines().map(str::to_owned).collect();
    files.sort();
    files
}

#[test]
fn units_pass_systemd_analyze() {
    let root = tempfile::tempdir().unwrap();
    install(root.path());
    for unit in UNITS {
        let path = root.path().join(format!("usr/lib/systemd/system/{unit}.service"));
        let verified = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
        assert!(verified.status.success(), "{}", text(&verified));
        // What it does not know it only mentions.
        assert_eq!(text(&verified), "", "{unit}");
        let unit = std::fs::read_to_string(&path).unwrap();
        for line in ["Restart=always", "KillMode=process", "Delegate=yes", "WantedBy=multi-user.target"] {
            assert!(unit.lines().any(|found| found == line), "{line} is missing: {unit}");
        }
        // The mounts of pods are the machine's: a mount namespace of the unit's own would hide and lose them.
        for option in
            ["Protect", "Private", "ReadOnlyPaths", "ReadWritePaths", "NoNewPrivileges", "SystemCall"]
        {
            assert!(!unit.lines().any(|line| line.starts_with(option)), "{option}");
        }
    }
}

#[test]
fn units_start_a_command_that_the_program_has() {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("settings");
    for (unit, variable) in
        [("minik8s-server", "MINIK8S_SERVER_FLAGS"), ("minik8s-agent", "MINIK8S_AGENT_FLAGS")]
    {
        std::fs::write(&settings, format!("{variable}=\"--node-name 'a b'  --help\"\n")).unwrap();
        let start = |program: &str| {
            let mut command = Command::new(packaging().join("start-unit"));
            succeed(command.arg(unit).arg(&settings).arg(program))
        };
        let word = unit.trim_start_matches("minik8s-");
        let shown = start(env!("CARGO_BIN_EXE_minik8s"));
        assert!(shown.contains(&format!("Usage: minik8s {word}")), "{shown}");
        let words = dir.path().join("words");
        std::fs::write(&words, "#!/bin/sh\nprintf '<%s>' \"$@\"\n").unwrap();
        std::fs::set_permissions(&words, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(start(words.to_str().unwrap()), format!("<{word}><--node-name><a b><--help>"));
    }
}

#[test]
fn uninstall_removes_what_install_installed() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    std::fs::create_dir_all(data.join("pki")).unwrap();
    let foreign = root.path().join("usr/bin/other");
    std::fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    std::fs::write(&foreign, "").unwrap();
    install(root.path());
    let program = root.path().join("usr/bin/minik8s");
    let secret = root.path().join("etc/default/minik8s-agent");
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&secret, "MINIK8S_AGENT_FLAGS=mine\n").unwrap();
    install(root.path());
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "MINIK8S_AGENT_FLAGS=mine\n", "settings are kept");

    let uninstall = |more: &[&str]| {
        let mut command = Command::new(&program);
        succeed(command.arg("uninstall").arg("--data-dir").arg(&data).args(more))
    };
    let told = uninstall(&[]);
    assert!(told.contains("its data stays in"), "{told}");
    assert_eq!(
        files(root.path()),
        ["etc/default/minik8s-agent", "etc/default/minik8s-server", "usr/bin/other"]
    );
    assert!(data.join("pki").exists());

    install(root.path());
    uninstall(&["--purge"]);
    assert_eq!(files(root.path()), ["usr/bin/other"]);
    assert!(!data.exists());
}

#[test]
fn uninstall_of_a_program_that_was_not_installed_refuses() {
    let output = Command::new(env!("CARGO_BIN_EXE_minik8s")).arg("uninstall").output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output).contains("was not installed by `make install`"), "{}", text(&output));
}

#[test]
fn deb_depends_on_what_a_node_calls() {
    let out = tempfile::tempdir().unwrap();
    let mut build = Command::new(packaging().join("deb"));
    // Any program will do: what is in it is not looked at, and the real one takes a minute to pack.
    let built = succeed(build.arg("/usr/bin/true").arg(out.path()).env("COMPRESSION", "gzip"));
    let package = built.trim();
    let field = |name: &str| succeed(Command::new("dpkg-deb").args(["--field", package, name]));
    assert_eq!(field("Version").trim(), env!("CARGO_PKG_VERSION"));
    let depends = field("Depends");
    // The packages that `minik8s doctor` would ask for.
    let doctor =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctor/programs.rs")).unwrap();
    let named = regex::Regex::new(r#"\(&\[.*\], "([a-z]+)", "|apt-get install ([a-z-]+)""#).unwrap();
    let packages: Vec<&str> = named
        .captures_iter(&doctor)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .map(|name| name.as_str())
        .collect();
    assert!(packages.len() >= 6, "{packages:?}");
    for package in packages.into_iter().chain(["iproute2", "libc6"]) {
        let listed = depends.split([',', '|']).any(|one| one.split_whitespace().next() == Some(package));
        assert!(listed, "{package} is not in {depends}");
    }
    let root = out.path().join("root");
    succeed(Command::new("dpkg-deb").args(["--extract", package]).arg(&root));
    let want = [
        "etc/default/minik8s-agent",
        "etc/default/minik8s-server",
        "usr/bin/minik8s",
        "usr/lib/systemd/system/minik8s-agent.service",
        "usr/lib/systemd/system/minik8s-server.service",
        "usr/share/doc/minik8s/copyright",
    ];
    assert_eq!(files(&root), want);
    let unit = std::fs::read_to_string(root.join(want[4])).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/minik8s server "), "{unit}");
}
