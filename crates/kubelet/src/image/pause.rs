//! The pause image, made of the program that `build.rs` compiled into this binary.

use super::Recipe;

/// Raise the tag whenever `pause/pause.c` changes.
pub const PAUSE_IMAGE: &str = "minik8s.io/pause:1";

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pause"));

/// The image as an OCI archive.
pub fn pause_archive() -> std::io::Result<Vec<u8>> {
    let recipe = Recipe::new(PAUSE_IMAGE)
        .file("pause", 0o755, PROGRAM.to_vec())
        .entrypoint(&["/pause"])
        .user("65535:65535");
    let mut archive = Vec::new();
    recipe.write(&mut archive)?;
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_small_and_static() {
        assert!(PROGRAM.starts_with(b"\x7fELF"));
        assert!(PROGRAM.len() < 4096, "{} bytes", PROGRAM.len());
        assert!(!PROGRAM.windows(3).any(|w| w == b"ld-"), "wants no dynamic loader");
    }

    #[test]
    fn the_archive_is_the_same_every_time() {
        assert_eq!(pause_archive().unwrap(), pause_archive().unwrap());
    }
}
