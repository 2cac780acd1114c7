//! Files of installed Debian packages, with all that they depend on, for images that need no download and no builder.
//!
//! What only people read (manuals, translations) stays behind. Nothing is installed, and nothing outside of what dpkg
//! lists is taken.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Recipe, bytecode};

/// Needed to install and to configure, not to run.
const LEFT_OUT: &[&str] = &[
    "adduser",
    "init-system-helpers",
    "debconf",
    "debconf-2.0",
    "dpkg",
    "install-info",
    "perl-base",
    "openssl",
    "mailcap",
    "python3",
];
const FOR_PEOPLE: &[&str] = &[
    "/usr/share/doc/",
    "/usr/share/man/",
    "/usr/share/locale/",
    "/usr/share/lintian/",
    "/usr/share/bug/",
    "/usr/share/info/",
    "/usr/share/doc-base/",
    "/usr/share/applications/",
    "/usr/share/pixmaps/",
    "/usr/share/binfmts/",
    "/usr/include/",
    "/usr/lib/node_modules/",
    "/etc/",
];

/// What dpkg knows of every installed package.
pub struct Packages {
    /// By name: the groups of alternatives that it depends on.
    depends: HashMap<String, Vec<Vec<String>>>,
    /// Who provides a name that is no package.
    provided: HashMap<String, String>,
}

impl Packages {
    pub fn read() -> io::Result<Self> {
        let format = "${Package}\\t${db:Status-Abbrev}\\t${Provides}\\t${Pre-Depends}, ${Depends}\\n";
        let text = output("dpkg-query", &["-W", "-f", format])?;
        Ok(Packages::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let (mut depends, mut provided) = (HashMap::new(), HashMap::new());
        for line in text.lines() {
            let mut fields = line.split('\t');
            let (Some(name), Some(status)) = (fields.next(), fields.next()) else { continue };
            if !status.starts_with("ii") {
                continue;
            }
            for given in names(fields.next().unwrap_or_default()).into_iter().flatten() {
                provided.insert(given, name.to_owned());
            }
            depends.insert(name.to_owned(), names(fields.next().unwrap_or_default()));
        }
        Packages { depends, provided }
    }

    /// These packages and all that they depend on; `Err` names the first that is not installed.
    fn closure(&self, wanted: &[&str]) -> Result<BTreeSet<String>, String> {
        let mut found = BTreeSet::new();
        let mut open: Vec<String> = Vec::new();
        for name in wanted {
            open.push(self.installed(name).ok_or_else(|| (*name).to_owned())?.to_owned());
        }
        while let Some(name) = open.pop() {
            if LEFT_OUT.contains(&name.as_str()) || !found.insert(name.clone()) {
                continue;
            }
            let groups = self.depends.get(&name).into_iter().flatten();
            open.extend(
                groups
                    .filter_map(|group| group.iter().find_map(|one| self.installed(one)).map(str::to_owned)),
            );
        }
        Ok(found)
    }

    fn installed<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if self.depends.contains_key(name) { Some(name) } else { self.provided.get(name).map(String::as_str) }
    }

    /// Adds the files of these packages, and of what they need, to an image.
    pub fn add_to(&self, recipe: Recipe, wanted: &[&str]) -> io::Result<Recipe> {
        self.add_some_to(recipe, wanted, &|_| true)
    }

    /// The same without the files that `takes` says no to.
    pub fn add_some_to(
        &self,
        recipe: Recipe,
        wanted: &[&str],
        takes: &dyn Fn(&str) -> bool,
    ) -> io::Result<Recipe> {
        let all = self.closure(wanted).map_err(|missing| {
            let text =
                format!("the package {missing} is not installed on this node: apt-get install {missing}");
            io::Error::new(io::ErrorKind::NotFound, text)
        })?;
        let arguments: Vec<&str> = ["-L"].into_iter().chain(all.iter().map(String::as_str)).collect();
        let listed = output("dpkg-query", &arguments)?;
        let is_kept =
            |path: &&str| path.starts_with('/') && !FOR_PEOPLE.iter().any(|folder| path.starts_with(folder));
        let paths: BTreeSet<&str> = listed.lines().filter(is_kept).filter(|path| takes(path)).collect();
        paths.into_iter().try_fold(recipe, add_path)
    }
}

/// A file, folder or link of this machine, at the same place.
pub(super) fn add_path(recipe: Recipe, path: &str) -> io::Result<Recipe> {
    // Packages of before the merger of / and /usr list files below links.
    let path = merged(path);
    let found = match std::fs::symlink_metadata(&path) {
        // Excluded when it was installed, or removed since.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(recipe),
        found => found?,
    };
    let inside = path.trim_start_matches('/');
    if inside.is_empty() || inside == "." {
        return Ok(recipe);
    }
    let mode = found.permissions().mode() & 0o755;
    if found.is_dir() {
        let recipe = recipe.directory(inside, mode);
        return Ok(match bytecode::folder(Path::new(&path)) {
            Some(cache) => recipe.directory(cache.to_string_lossy().trim_start_matches('/'), 0o755),
            None => recipe,
        });
    }
    if found.is_symlink() {
        let target = std::fs::read_link(&path)?;
        return Ok(recipe.link(inside, &target.to_string_lossy()));
    }
    if !found.is_file() {
        return Ok(recipe);
    }
    let recipe = match bytecode::of(Path::new(&path), &found) {
        Some((cache, content)) => {
            recipe.file(cache.to_string_lossy().trim_start_matches('/'), 0o644, content)
        }
        None => recipe,
    };
    Ok(recipe.file(inside, mode, std::fs::read(Path::new(&path))?))
}

/// Where a file is since /bin, /lib and the like are links into /usr.
fn merged(path: &str) -> String {
    let below = ["/bin/", "/sbin/", "/lib/", "/lib64/", "/lib32/", "/libx32/"];
    match below.iter().any(|folder| path.starts_with(folder)) {
        true => format!("/usr{path}"),
        false => path.to_owned(),
    }
}

/// Groups of alternatives, without versions and architectures.
fn names(list: &str) -> Vec<Vec<String>> {
    let bare = |one: &str| one.split(['(', ':']).next().unwrap_or_default().trim().to_owned();
    let group = |group: &str| group.split('|').map(bare).filter(|name| !name.is_empty()).collect::<Vec<_>>();
    list.split(',').map(group).filter(|group| !group.is_empty()).collect()
}

fn output(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("{program}: {}", text.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_bring_what_they_depend_on() {
        let packages = Packages::parse(concat!(
            "app\tii \t\t, libone (>= 1), libtwo | libthree:any\n",
            "libone\tii \t\tlibc6 (>= 2), \n",
            "libthree\tii \tlibother\tlibc6, \n",
            "libtwo\trc \t\t, \n",
            "libc6\tii \t\t, debconf | dpkg\n",
            "debconf\tii \t\t, \n",
        ));
        let all: Vec<String> = packages.closure(&["app"]).unwrap().into_iter().collect();
        assert_eq!(all, ["app", "libc6", "libone", "libthree"]);
        assert_eq!(packages.closure(&["libother"]).unwrap().len(), 2, "by what it provides");
        assert_eq!(packages.closure(&["libtwo"]).unwrap_err(), "libtwo", "removed");
    }

    #[test]
    fn files_below_links_are_found() {
        for (path, want) in
            [("/lib/x.so", "/usr/lib/x.so"), ("/usr/lib/x", "/usr/lib/x"), ("/libfoo", "/libfoo")]
        {
            assert_eq!(merged(path), want);
        }
    }
}
