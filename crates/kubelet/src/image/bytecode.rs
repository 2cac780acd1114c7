//! Python's bytecode in images: without it every start compiles what it imports, which takes four times as long as the
//! interpreter's whole start with it.
//!
//! Packages do not list the bytecode that was made when they were configured, and it names the time of its source, which
//! files of an image do not have. So it is taken from the machine where it still fits its source, and marked as one that
//! needs no comparison (PEP 552). Sources of an image do not change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEAD: usize = 16;
/// Its kind is "by hash", and the hash is not looked at.
const UNCHECKED: [u8; 4] = [1, 0, 0, 0];
/// Which no function imports.
const LEFT_OUT: [&str; 8] = [
    "/test/",
    "/tests/",
    "/idlelib/",
    "/lib2to3/",
    "/tkinter/",
    "/turtledemo/",
    "/ensurepip/",
    "/pydoc_data/",
];

/// Where the bytecode of a source is, and its content for an image; nothing where the machine has none that fits.
pub fn of(source: &Path, found: &Metadata) -> Option<(PathBuf, Vec<u8>)> {
    let name = source.file_name()?.to_str()?.strip_suffix(".py")?;
    let (folder, version) = library(source)?;
    if LEFT_OUT.iter().any(|left_out| folder.contains(left_out)) {
        return None;
    }
    let cache = source.parent()?.join("__pycache__").join(format!("{name}.cpython-{version}.pyc"));
    let content = std::fs::read(&cache).ok()?;
    let content = without_time(content, found.mtime(), found.size())?;
    Some((cache, content))
}

/// Where the bytecode of a folder's sources is, if there is some.
pub fn folder(folder: &Path) -> Option<PathBuf> {
    let cache = folder.join("__pycache__");
    library(&cache)?;
    cache.is_dir().then_some(cache)
}

/// The path, and the version of Python whose library it is in: `311` for `/usr/lib/python3.11/…`.
fn library(source: &Path) -> Option<(String, String)> {
    let path = source.to_str()?;
    let rest = path.strip_prefix("/usr/lib/python")?;
    let version = rest.split('/').next().filter(|version| version.contains('.'))?;
    Some((path.to_owned(), version.replace('.', "")))
}

fn without_time(mut content: Vec<u8>, mtime: i64, size: u64) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u32::from_le_bytes(content.get(at..at + 4)?.try_into().ok()?));
    let fits = word(4)? == 0
        && i64::from(word(8)?) == mtime & 0xffff_ffff
        && u64::from(word(12)?) == size & 0xffff_ffff;
    if !fits {
        return None;
    }
    content[4..8].copy_from_slice(&UNCHECKED);
    content[8..HEAD].fill(0);
    Some(content)
}

/// Bytecode of a program that is run as `name`, made by the machine's own interpreter; nothing where it cannot be made.
pub fn compile(interpreter: &str, program: &str, name: &str) -> Option<Vec<u8>> {
    const COMPILE: &str = "import sys, importlib._bootstrap_external as b\n\
        code = compile(sys.argv[1], sys.argv[2], 'exec', dont_inherit=True)\n\
        sys.stdout.buffer.write(b._code_to_hash_pyc(code, bytes(8), False))";
    let output = Command::new(interpreter).args(["-I", "-c", COMPILE, program, name]).output().ok()?;
    (output.status.success() && output.stdout.len() > HEAD).then_some(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytecode_that_fits_its_source_needs_no_comparison_later() {
        let head = |flags: u32, mtime: u32, size: u32| {
            [
                &[0xa7, 0x0d, 0x0d, 0x0a][..],
                &flags.to_le_bytes(),
                &mtime.to_le_bytes(),
                &size.to_le_bytes(),
                b"code",
            ]
            .concat()
        };
        let made = without_time(head(0, 1_700_000_000, 42), 1_700_000_000, 42).unwrap();
        assert_eq!(made, [&[0xa7, 0x0d, 0x0d, 0x0a][..], &UNCHECKED, &[0; 8], b"code"].concat());
        assert_eq!(
            without_time(head(0, 1_700_000_001, 42), 1_700_000_000, 42),
            None,
            "older than its source"
        );
        assert_eq!(without_time(head(0, 1_700_000_000, 43), 1_700_000_000, 42), None);
        assert_eq!(without_time(head(3, 1, 1), 1, 1), None, "of another kind");
        assert_eq!(without_time(b"short".to_vec(), 1, 1), None);
    }

    #[test]
    fn only_libraries_of_python_have_bytecode() {
        assert_eq!(library(Path::new("/usr/lib/python3.11/json/decoder.py")).unwrap().1, "311");
        assert_eq!(library(Path::new("/usr/lib/python3/dist-packages/a.py")), None);
        assert_eq!(library(Path::new("/usr/share/a.py")), None);
    }

    /// What is made here is what the interpreter runs.
    #[test]
    fn compiled_program_runs_under_its_name() {
        let made = compile("/usr/bin/python3.11", "print(__file__, 6 * 7)", "/fn/x.pyc").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.pyc");
        std::fs::write(&file, made).unwrap();
        let output = Command::new("/usr/bin/python3.11").arg(&file).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{} 42\n", file.display()));
        assert_eq!(compile("/usr/bin/python3.11", "def (", "x"), None);
        assert_eq!(compile("/nowhere/python", "1", "x"), None);
    }
}
