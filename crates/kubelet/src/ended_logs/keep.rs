//! Compresses the logs of a pod that ends.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use minik8s_datadir::{has_room, remove_tree};

use super::{ABOUT, EndedPod, UNFINISHED};

/// Puts the files of `logs` (a folder per container) into the folder of ended logs. Blocks. Says whether it did.
pub fn keep(logs: &Path, folder: &Path, mut pod: EndedPod) -> io::Result<bool> {
    fs::create_dir_all(folder)?;
    if !has_room(folder)? {
        return Ok(false);
    }
    let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
    let unfinished = format!("{UNFINISHED}{name}");
    let target = folder.join(&unfinished);
    if target.exists() {
        // From an agent that was ended in between.
        remove_tree(folder, &unfinished).map_err(io::Error::other)?;
    }
    fs::create_dir(&target)?;
    let mut printed = false;
    for container in fs::read_dir(logs)?.flatten() {
        let Ok(container_name) = container.file_name().into_string() else { continue };
        if !container.file_type()?.is_dir() {
            continue;
        }
        let mut has_log = false;
        for file in fs::read_dir(container.path())?.flatten() {
            // Never through a link: the folder of a container's logs is root's, but a link is nobody's log.
            if !file.file_type()?.is_file() || file.metadata()?.len() == 0 {
                continue;
            }
            let Ok(file_name) = file.file_name().into_string() else { continue };
            compress(&file.path(), &target.join(format!("{container_name}.{file_name}.gz")))?;
            has_log = true;
        }
        if has_log {
            pod.containers.push(container_name);
            printed = true;
        }
    }
    if !printed {
        remove_tree(folder, &unfinished).map_err(io::Error::other)?;
        return Ok(false);
    }
    pod.containers.sort();
    fs::write(target.join(ABOUT), serde_json::to_vec(&pod)?)?;
    fs::rename(&target, folder.join(&name))?;
    Ok(true)
}

fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let mut encoder = GzEncoder::new(File::create_new(to)?, Compression::fast());
    io::copy(&mut BufReader::new(File::open(from)?), &mut encoder)?;
    encoder.finish()?;
    Ok(())
}
