//! Embeds what `npm run build` left in `web/dist`: compressed files only. Without them the program builds as well, and
//! its dashboard says how to get it. This never runs npm: building the program must not need it.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let dist = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../web/dist");
    let dist = dist.canonicalize().unwrap_or(dist);
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut table = String::from("pub static FILES: &[File] = &[\n");
    for gzip in compressed(&dist)? {
        let plain = gzip.with_extension("");
        let path = plain.strip_prefix(&dist)?.to_string_lossy().into_owned();
        let brotli = dist.join(format!("{path}.br"));
        writeln!(
            table,
            "File {{ path: {path:?}, gzip: include_bytes!({gzip:?}), brotli: include_bytes!({brotli:?}) }},"
        )?;
    }
    table.push_str("];\n");
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("files.rs"), table)?;
    Ok(())
}

/// All `*.gz`, in a fixed order: the same files make the same program.
fn compressed(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(found) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(compressed(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "gz") {
            found.push(path.canonicalize()?);
        }
    }
    found.sort();
    Ok(found)
}
