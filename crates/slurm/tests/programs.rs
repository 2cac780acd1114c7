//! The example programs: they run on the CPU by our stand-in for nvcc, and compile with NVIDIA's own.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAMS: [&str; 3] = ["matadd", "matmul", "streams"];
/// nvcc and what it calls and includes.
const PACKAGES: [&str; 5] =
    ["nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpu")
}

fn compile(nvcc: &Path, source: &Path, program: &Path) -> Output {
    Command::new(nvcc).args(["-O1", "-o"]).arg(program).arg(source).output().unwrap()
}

#[test]
fn programs_give_right_results_at_every_size() {
    let dir = tempfile::tempdir().unwrap();
    for name in PROGRAMS {
        let output = compile(
            &examples().join("cpu/nvcc"),
            &examples().join(format!("{name}.cu")),
            &dir.path().join(name),
        );
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let run = |name: &str, sizes: &[&str], devices: Option<&str>| {
        let mut command = Command::new(dir.path().join(name));
        command
            .args(sizes)
            .env_remove("CUDA_VISIBLE_DEVICES")
            .envs(devices.map(|ids| ("CUDA_VISIBLE_DEVICES", ids)));
        command.output().unwrap()
    };
    // One element, less than a tile, exactly one, one more, and shapes that are not square.
    for (name, sizes) in [
        ("matadd", &["1"][..]),
        ("matadd", &["33", "9"]),
        ("matmul", &["1"]),
        ("matmul", &["15"]),
        ("matmul", &["16"]),
        ("matmul", &["17", "1", "33"]),
        ("matmul", &["5", "40", "3"]),
        ("streams", &["1", "1"]),
        ("streams", &["10007", "3"]),
        ("streams", &["100", "100"]),
    ] {
        let output = run(name, sizes, Some("0"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.ends_with("PASS\n"), "{name} {sizes:?}: {said} {output:?}");
    }
    for (sizes, devices, code, words) in
        [(&["4"][..], None, 2, "no CUDA-capable device"), (&["0"], Some("0"), 2, "usage: matmul")]
    {
        let output = run("matmul", sizes, devices);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && said.contains(words), "{said}");
    }
}

/// Where a user's mistake is, is told as a compiler tells it.
#[test]
fn mistakes_are_told_at_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("a.cu");
    std::fs::write(&source, "__global__ void f() {}\nint main() { f<<<1, 1>>>(); return nothing; }\n")
        .unwrap();
    let output = compile(&examples().join("cpu/nvcc"), &source, &dir.path().join("a"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("a.cu:2:"), "{said}");
}

#[test]
fn programs_compile_with_nvidias_compiler() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvcc");
    let nvcc = find(&home).unwrap_or_else(|| install(&home));
    let dir = tempfile::tempdir().unwrap();
    for name in PROGRAMS {
        let program = dir.path().join(name);
        let output = compile(&nvcc, &examples().join(format!("{name}.cu")), &program);
        assert!(
            output.status.success() && program.exists(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn find(home: &Path) -> Option<PathBuf> {
    let python = std::fs::read_dir(home.join("lib")).ok()?.next()?.ok()?.path();
    let packages = std::fs::read_dir(python.join("site-packages/nvidia")).ok()?;
    packages.flatten().map(|package| package.path().join("bin/nvcc")).find(|nvcc| nvcc.is_file())
}

fn install(home: &Path) -> PathBuf {
    let run = |program: PathBuf, arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    };
    run("python3".into(), &["-m", "venv", "--clear", home.to_str().unwrap()]);
    run(home.join("bin/pip"), &[&["install", "--quiet"], &PACKAGES[..]].concat());
    find(home).expect("the packages hold nvcc")
}
