//! Zip archives of code: checked before they are stored, made from a folder, and read for what they depend on.
//!
//! What is checked is what whoever unpacks would trip over: names that lead out of the folder, links, two files of one
//! name, archives that become enormous. Nothing is unpacked to a disk here.

mod check;
mod inside;
mod pack;
mod read;

pub use check::{ZipError, check};
pub use inside::inside;
pub use pack::pack;
pub use read::{names, read};

const END: u32 = 0x0605_4b50;
const ENTRY: u32 = 0x0201_4b50;
const FILE: u32 = 0x0403_4b50;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<(String, Vec<u8>)> {
        names.iter().map(|name| ((*name).to_owned(), b"content of it".repeat(9))).collect()
    }

    fn verdict(names: &[&str]) -> Result<(), ZipError> {
        check(&pack(&files(names)).unwrap())
    }

    #[test]
    fn packed_files_are_accepted() {
        verdict(&["main.py", "lib/a.py", "lib/b.py", "name with space.txt"]).unwrap();
    }

    #[test]
    fn packed_files_are_read_again() {
        let archive = pack(&files(&["main.py", "lib/a.py", "lib/b.py"])).unwrap();
        assert_eq!(names(&archive).unwrap(), ["main.py", "lib/a.py", "lib/b.py"]);
        let found = read(&archive, |name| name.starts_with("lib/")).unwrap();
        assert_eq!(found, files(&["lib/a.py", "lib/b.py"]));
        // One that has more than it says.
        let mut lies = archive.clone();
        let entry = archive.windows(4).position(|bytes| bytes == ENTRY.to_le_bytes()).unwrap();
        lies[entry + 24..entry + 28].copy_from_slice(&5_u32.to_le_bytes());
        assert_eq!(read(&lies, |_| true), Err(ZipError::Broken));
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        for bad in ["../x", "a/../../x", "/etc/passwd", "a\\b", "C:/x", "a/./b", "a//b", "", "x\0y"] {
            let error = verdict(&["main.py", bad]).unwrap_err();
            assert!(matches!(error, ZipError::Name(_)), "{bad:?}: {error}");
        }
        assert!(matches!(verdict(&["a", "a"]), Err(ZipError::Duplicate(_))));
        assert!(matches!(verdict(&["a", "A/../a"]), Err(ZipError::Name(_))));
        assert!(matches!(verdict(&["a", "a/b"]), Err(ZipError::Duplicate(_))), "a file and a folder");
        assert!(matches!(verdict(&[]), Err(ZipError::Empty)));
    }

    /// As `zip -r code.zip index.js ../infra` makes them.
    #[test]
    fn names_above_are_taken_in() {
        let made = files(&["index.js", "../infra/", "../infra/a.js", "../../b.js", "../"]);
        let found = inside(&pack(&made).unwrap()).unwrap();
        check(&found).unwrap();
        assert_eq!(read(&found, |_| true).unwrap(), files(&["index.js", "infra/a.js", "b.js"]));
        assert_eq!(inside(&pack(&files(&["index.js", "a/../b"])).unwrap()), None, "nothing to take off");
        let twice = inside(&pack(&files(&["a", "../a"])).unwrap()).unwrap();
        assert!(matches!(check(&twice), Err(ZipError::Duplicate(_))));
    }

    #[test]
    fn shared_content_is_not_multiplied() {
        let large: Vec<u8> = (0..=u8::MAX).collect();
        let mut archive = pack(&[("../a".to_owned(), large), ("../b".to_owned(), Vec::new())]).unwrap();
        assert!(inside(&archive).is_some());
        let records: Vec<usize> =
            (0..archive.len() - 4).filter(|at| archive[*at..].starts_with(&ENTRY.to_le_bytes())).collect();
        let [first, second] = records[..] else { panic!("{records:?}") };
        // The second has the length and the place of the first.
        archive.copy_within(first + 20..first + 28, second + 20);
        archive.copy_within(first + 42..first + 46, second + 42);
        assert_eq!(inside(&archive), None);
    }

    #[test]
    fn links_are_refused() {
        let mut archive = pack(&files(&["main.py"])).unwrap();
        let entry = archive.windows(4).position(|bytes| bytes == ENTRY.to_le_bytes()).unwrap();
        // The mode of a symbolic link, made on Unix.
        archive[entry + 38..entry + 42].copy_from_slice(&(0o120_777_u32 << 16).to_le_bytes());
        assert!(matches!(check(&archive), Err(ZipError::Link(_))));
    }

    #[test]
    fn bombs_are_refused() {
        let large = vec![(String::from("zeros"), vec![0; 8 << 20])];
        assert!(matches!(check(&pack(&large).unwrap()), Err(ZipError::Ratio(_))));
        // An entry that claims less than it has is found out by whoever unpacks; one that claims more, here.
        let mut archive = pack(&files(&["main.py"])).unwrap();
        let entry = archive.windows(4).position(|bytes| bytes == ENTRY.to_le_bytes()).unwrap();
        archive[entry + 24..entry + 28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(check(&archive).is_err());
    }

    /// Whatever is broken or cut off, there is an answer and no panic.
    #[test]
    fn broken_archives_are_refused() {
        let archive = pack(&files(&["main.py", "lib/a.py"])).unwrap();
        for length in 0..archive.len() {
            assert!(check(&archive[..length]).is_err(), "{length}");
        }
        for place in 0..archive.len() {
            let mut broken = archive.clone();
            broken[place] ^= 0xff;
            let _ = (check(&broken), read(&broken, |_| true), inside(&broken));
        }
    }
}
