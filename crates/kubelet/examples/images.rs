//! `make images`: builds the small images that examples and tests use, without docker.
//!
//! Usage: `images OUT_DIR`. Needs Debian's busybox-static.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use minik8s_kubelet::image::{busybox, load, web};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).ok_or("usage: images OUT_DIR")?;
    let out = Path::new(&out);
    std::fs::create_dir_all(out)?;
    for (file, recipe) in [("busybox.tar", busybox()?), ("web.tar", web()?), ("load.tar", load()?)] {
        let path = out.join(file);
        recipe.write(BufWriter::new(File::create(&path)?))?;
        println!("{}", path.display());
    }
    Ok(())
}
