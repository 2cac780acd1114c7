//! `minik8s image`: the images of this machine's node.

mod dockerfile;
mod push;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use minik8s_cli::{GlobalFlags, Progress, bar};
use minik8s_kubelet::Config;
use minik8s_kubelet::cri::{Cri, ImageRecord, Runtime};
use minik8s_kubelet::image::{
    ImageStore, Overlay, Packages, Recipe, busybox, load as load_maker, make_runtime, packaged_recipe,
    runtime_of, slurm_submit, web,
};
use minik8s_meta::packaged_image::{PACKAGED_IMAGES, packaged_image};

use crate::flags::ImageCommand;
use crate::{kubeconfig, output};

pub async fn run(command: ImageCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    match command {
        ImageCommand::Load { files, node } => {
            let store = store(&node.data_dir)?;
            for file in files {
                load(&store, &file).await.with_context(|| format!("cannot load {}", file.display()))?;
            }
            Ok(())
        }
        ImageCommand::Samples { folder } => write_samples(&folder),
        ImageCommand::SlurmSubmit { node } => make(&store(&node.data_dir)?, slurm_submit()?).await,
        ImageCommand::Make { image, node } => {
            let Some(packaged) = packaged_image(&image) else {
                let known: Vec<&str> = PACKAGED_IMAGES.iter().map(|packaged| packaged.image).collect();
                bail!("{image} is not made of packages; these are: {}", known.join(", "));
            };
            make(&store(&node.data_dir)?, packaged_recipe(packaged)?).await
        }
        ImageCommand::Build { from, base, tag, to, package, env, entrypoint, command, node } => {
            let store = store(&node.data_dir)?;
            let Some(base) = base else {
                let overlay = Overlay { env, entrypoint, command, work_dir: None };
                return build_dockerfile(&store, &from, &package, &tag, overlay).await;
            };
            let work_dir = Some(format!("/{}", to.trim_matches('/')));
            let overlay = Overlay { env, entrypoint, command, work_dir };
            let files = Files { from: &from, to: &to, packages: &package };
            build(&store, &files, &base, &tag, &overlay).await
        }
        ImageCommand::Pull { names, node } => pull(&node.data_dir, &names).await,
        ImageCommand::Push { name, to, node } => {
            let store = store(&node.data_dir)?;
            let (client, namespace) = kubeconfig::client(global).await?;
            let pushed = push::push(&store, &client, &namespace, &name, to.as_deref()).await;
            pushed.with_context(|| format!("cannot push {name}"))
        }
        ImageCommand::Prune { node } => prune(&node.data_dir).await,
        ImageCommand::List { node } => {
            let images = store(&node.data_dir)?.list().await?;
            let width = images.iter().map(|image| image.name.len()).max().unwrap_or(0).max("IMAGE".len());
            output::line(format_args!("{:width$}  DIGEST", "IMAGE"))?;
            for image in images {
                output::line(format_args!("{:width$}  {}", image.name, image.digest))?;
            }
            Ok(())
        }
        ImageCommand::Rm { names, node } => {
            let store = store(&node.data_dir)?;
            for name in names {
                store.remove(&name).await?;
                output::line(format_args!("removed {name}"))?;
            }
            Ok(())
        }
    }
}

async fn make(store: &ImageStore, recipe: Recipe) -> anyhow::Result<()> {
    let line = Progress::begin("making the image of this machine's packages");
    let mut archive = std::io::Cursor::new(Vec::new());
    recipe.write(&mut archive)?;
    archive.set_position(0);
    let made = store.load(archive, |_| {}).await?;
    drop(line);
    for name in made {
        output::line(format_args!("made {name}"))?;
    }
    Ok(())
}

/// What goes on top of the base.
struct Files<'a> {
    from: &'a Path,
    to: &'a str,
    packages: &'a [String],
}

async fn build(
    store: &ImageStore,
    files: &Files<'_>,
    base: &str,
    tag: &str,
    overlay: &Overlay,
) -> anyhow::Result<()> {
    let (from, to) = (files.from, files.to.trim_matches('/'));
    if to.split('/').any(|part| part == ".." || part == ".") {
        bail!("--to {to}: give a plain path");
    }
    let (recipe, folder) = add_folders(Recipe::new(tag), to);
    let recipe =
        add_files(recipe, from, &folder).with_context(|| format!("cannot read {}", from.display()))?;
    put_on(store, recipe, files.packages, base, tag, overlay).await
}

/// As the Dockerfile of a folder says.
async fn build_dockerfile(
    store: &ImageStore,
    from: &Path,
    packages: &[String],
    tag: &str,
    given: Overlay,
) -> anyhow::Result<()> {
    let (context, path) = match from.is_dir() {
        true => (from, from.join("Dockerfile")),
        false => (from.parent().unwrap_or(Path::new(".")), from.to_owned()),
    };
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!("cannot read {}: give --base IMAGE, or a folder with a Dockerfile", path.display())
    })?;
    let file =
        dockerfile::parse(&text).map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))?;
    let mut recipe = Recipe::new(tag);
    for copy in &file.copies {
        for source in &copy.from {
            let what = || format!("{}: line {}: cannot copy {source}", path.display(), copy.line);
            recipe = add_copy(recipe, &context.join(source), &copy.to).with_context(what)?;
        }
    }
    let or = |given: Vec<String>, own: Vec<String>| if given.is_empty() { own } else { given };
    let overlay = Overlay {
        env: file.env.into_iter().chain(given.env).collect(),
        entrypoint: or(given.entrypoint, file.entrypoint),
        command: or(given.command, file.command),
        work_dir: file.work_dir,
    };
    put_on(store, recipe, packages, &file.base, tag, &overlay).await
}

/// What is copied to a path that ends with a slash keeps its name; a folder is what is in it.
fn add_copy(recipe: Recipe, from: &Path, to: &str) -> std::io::Result<Recipe> {
    let is_folder = std::fs::metadata(from)?.is_dir();
    if is_folder || to.ends_with('/') {
        let (recipe, folder) = add_folders(recipe, to.trim_matches('/'));
        return add_files(recipe, from, &folder);
    }
    let (parent, name) =
        to.trim_start_matches('/').rsplit_once('/').unwrap_or(("", to.trim_start_matches('/')));
    let (recipe, folder) = add_folders(recipe, parent);
    let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(from)?.permissions()) & 0o755;
    Ok(recipe.file(&path, mode | 0o444, std::fs::read(from)?))
}

/// The folders that a path goes through; the path itself, without slashes around it.
fn add_folders(mut recipe: Recipe, path: &str) -> (Recipe, String) {
    let mut folder = String::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        folder = if folder.is_empty() { part.to_owned() } else { format!("{folder}/{part}") };
        recipe = recipe.directory(&folder, 0o755);
    }
    (recipe, folder)
}

async fn put_on(
    store: &ImageStore,
    recipe: Recipe,
    packages: &[String],
    base: &str,
    tag: &str,
    overlay: &Overlay,
) -> anyhow::Result<()> {
    let line = Progress::begin(format_args!("building {tag}: looking for {base}"));
    if let Some(runtime) = runtime_of(base)
        && !store.exists(base).await?
    {
        line.say(format_args!("building {tag}: making {base} of this machine's packages"));
        make_runtime(store, runtime).await.map_err(anyhow::Error::msg)?;
    }
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    if !packages.is_empty() {
        line.say(format_args!("building {tag}: reading {} and what they depend on", packages.join(", ")));
    }
    let recipe = if packages.is_empty() { recipe } else { Packages::read()?.add_to(recipe, &packages)? };
    line.say(format_args!("building {tag}: writing its layer"));
    let built = store.build(base, &recipe, overlay, tag).await;
    drop(line);
    let built =
        built.with_context(|| format!("cannot build on {base}; `minik8s image list` shows what there is"))?;
    output::line(format_args!("built {built}"))?;
    Ok(())
}

/// From where their names say, as a pod without credentials would.
async fn pull(data_dir: &Path, names: &[String]) -> anyhow::Result<()> {
    let runtime = cri(data_dir)?;
    for name in names {
        let line = Progress::begin(format_args!("pulling {name}"));
        let pulled = runtime.pull_image(name, None).await;
        drop(line);
        let id = pulled.with_context(|| format!("cannot pull {name}"))?;
        output::line(format_args!("pulled {name} {id}"))?;
    }
    Ok(())
}

/// Those that no container of this node was made from, and that no node could make again by itself.
async fn prune(data_dir: &Path) -> anyhow::Result<()> {
    let (runtime, store) = (cri(data_dir)?, store(data_dir)?);
    let rows = runtime.container_rows().await?;
    let used = |image: &ImageRecord| {
        let names = image.tags.iter().chain(&image.digests).chain([&image.id]);
        names.into_iter().any(|name| rows.iter().any(|row| row.image == *name || row.image_id == *name))
    };
    let mut removed = 0;
    for image in runtime.images().await?.iter().filter(|image| !used(image)) {
        // What sandboxes are made of has no container that says so.
        let is_own = image.tags.iter().any(|tag| tag.starts_with("minik8s.io/"));
        for tag in image.tags.iter().filter(|_| !is_own) {
            store.remove(tag).await?;
            output::line(format_args!("removed {tag}"))?;
            removed += 1;
        }
    }
    Ok(output::line(format_args!("{removed} images removed"))?)
}

/// A file, or all below a folder. Links stay links: what they name is in the image or not.
fn add_files(recipe: Recipe, from: &Path, to: &str) -> std::io::Result<Recipe> {
    use std::os::unix::fs::PermissionsExt;
    let below = |name: &str| if to.is_empty() { name.to_owned() } else { format!("{to}/{name}") };
    if std::fs::metadata(from)?.is_file() {
        let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mode = std::fs::metadata(from)?.permissions().mode() & 0o755;
        return Ok(recipe.file(&below(&name), mode | 0o444, std::fs::read(from)?));
    }
    let mut entries: Vec<_> = std::fs::read_dir(from)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut recipe = recipe;
    for entry in entries {
        let (path, kind) = (below(&entry.file_name().to_string_lossy()), entry.file_type()?);
        let mode = entry.metadata()?.permissions().mode() & 0o755;
        if kind.is_dir() {
            recipe = add_files(recipe.directory(&path, 0o755), &entry.path(), &path)?;
        } else if kind.is_symlink() {
            recipe = recipe.link(&path, &std::fs::read_link(entry.path())?.to_string_lossy());
        } else if kind.is_file() {
            recipe = recipe.file(&path, mode | 0o444, std::fs::read(entry.path())?);
        }
    }
    Ok(recipe)
}

/// Made from Debian's busybox and nothing else, without docker and without a compiler.
fn write_samples(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (file, recipe) in [("busybox.tar", busybox()), ("web.tar", web()), ("load.tar", load_maker())] {
        let path = folder.join(file);
        let what = || format!("cannot write {}", path.display());
        let recipe = recipe.context("no busybox to make images of: apt-get install busybox-static")?;
        let line = Progress::begin(format_args!("writing {}", path.display()));
        recipe.write(BufWriter::new(File::create(&path).with_context(what)?)).with_context(what)?;
        drop(line);
        output::line(path.display())?;
    }
    Ok(())
}

/// The image store of the node's containerd, which must be running.
fn store(data_dir: &Path) -> anyhow::Result<ImageStore> {
    Ok(ImageStore::new(&socket(data_dir)?))
}

fn cri(data_dir: &Path) -> anyhow::Result<Cri> {
    Ok(Cri::new(&socket(data_dir)?))
}

fn socket(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let data_dir = std::path::absolute(data_dir).context("--data-dir")?;
    let socket = Config::new("node", &data_dir, IpAddr::V4(Ipv4Addr::LOCALHOST)).containerd_socket();
    if !socket.exists() {
        bail!(
            "no node runs with the data dir {} (start one with `minik8s server`, or give --data-dir)",
            data_dir.display()
        );
    }
    Ok(socket)
}

async fn load(store: &ImageStore, file: &Path) -> anyhow::Result<()> {
    let line = Progress::begin(format_args!("loading {}", file.display()));
    let show = |progress: minik8s_kubelet::image::Progress| {
        let [done, total] =
            [progress.done, progress.total].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let percent = bar::percent(done, total);
        line.say(format_args!("loading {}  {} {percent:3} %", progress.image, bar::bar(done, total)));
    };
    let loaded = store.load(BufReader::new(File::open(file)?), show).await?;
    drop(line);
    if loaded.is_empty() {
        bail!("the archive names no image");
    }
    for name in loaded {
        output::line(format_args!("loaded {name}"))?;
    }
    Ok(())
}
