//! `minik8s ui`: pods, nodes, events and every other kind in a terminal, live, for those who came by SSH.
//!
//! What keys do is a pure state machine (`app`), what it looks like a pure function of it (`draw`). Lists are the server's
//! tables, watched (`cluster`). Whatever is done to an object is a command of this program, shown as such: describe, logs,
//! why, exec. So there is nothing here that the command line could not do, and no rights but the kubeconfig's.

mod app;
mod cluster;
mod draw;
mod keys;
mod screen;
mod table;
mod terminal;
mod words;

use std::io::IsTerminal;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use jiff::Timestamp;
use kube::Client;
use minik8s_cli::GlobalFlags;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::app::{App, Effect};
use self::cluster::News;
use self::keys::Key;
use self::table::plain;
use self::terminal::Terminal;
use self::words::{Language, Word};
use crate::kubeconfig;

/// How often ages are drawn anew.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s ui
  minik8s ui -n shop
  minik8s ui nodes
  minik8s ui deploy -A")]
pub struct UiFlags {
    /// The kind to begin with, by any of its names
    #[arg(value_name = "KIND", default_value = "pods")]
    kind: String,
    /// Begin with all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

pub async fn run(flags: UiFlags, global: &GlobalFlags) -> anyhow::Result<()> {
    ensure!(
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
        "`minik8s ui` is for terminals; in a pipe use `minik8s get`, or `minik8s dashboard` in a browser"
    );
    let (client, namespace) = kubeconfig::client(global).await?;
    let kinds = cluster::kinds(&client).await?;
    let kind = kinds.iter().find(|kind| kind.is_called(&flags.kind)).cloned();
    let kind = kind.with_context(|| format!("the cluster has no kind {:?}", flags.kind))?;
    let namespace = if flags.all_namespaces { String::new() } else { namespace };
    let mut app = App::new(kind, namespace, language());
    app.kinds = kinds;
    Ui::new(client, app, own_arguments(global)).run(Terminal::enter()?).await
}

fn language() -> Language {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set);
    Language::of(&locale.unwrap_or_default())
}

/// Which cluster and as whom, for commands of our own.
fn own_arguments(global: &GlobalFlags) -> Vec<std::ffi::OsString> {
    let mut arguments = Vec::new();
    let mut add = |flag: &str, value: Option<std::ffi::OsString>| {
        if let Some(value) = value {
            arguments.extend([flag.into(), value]);
        }
    };
    let path = |path: &Option<std::path::PathBuf>| path.clone().map(Into::into);
    let text = |text: &Option<String>| text.clone().map(Into::into);
    add("--kubeconfig", path(&global.kubeconfig));
    add("--context", text(&global.context));
    add("--cluster", text(&global.cluster));
    add("--user", text(&global.user));
    add("--server", text(&global.server));
    add("--token", text(&global.token));
    add("--certificate-authority", path(&global.certificate_authority));
    add("--client-certificate", path(&global.client_certificate));
    add("--client-key", path(&global.client_key));
    add("--as", text(&global.as_user));
    add("--as-uid", text(&global.as_uid));
    for group in &global.as_group {
        add("--as-group", Some(group.into()));
    }
    if global.insecure_skip_tls_verify {
        arguments.push("--insecure-skip-tls-verify".into());
    }
    arguments
}

/// A line of a command that is shown, or its end.
enum Output {
    Line(u64, String),
    Ended(u64),
}

struct Ui {
    client: Client,
    app: App,
    arguments: Vec<std::ffi::OsString>,
    follow: Option<JoinHandle<()>>,
    shown: Option<JoinHandle<()>>,
    /// Which command is shown: what an earlier one still says is not.
    number: u64,
    news: (mpsc::Sender<News>, mpsc::Receiver<News>),
    output: (mpsc::Sender<Output>, mpsc::Receiver<Output>),
    /// Held by whoever reads keys.
    keyboard: Arc<Mutex<()>>,
}

impl Ui {
    fn new(client: Client, app: App, arguments: Vec<std::ffi::OsString>) -> Self {
        Ui {
            client,
            app,
            arguments,
            follow: None,
            shown: None,
            number: 0,
            news: mpsc::channel(4),
            output: mpsc::channel(1024),
            keyboard: Arc::default(),
        }
    }

    async fn run(mut self, mut terminal: Terminal) -> anyhow::Result<()> {
        let (keys, mut typed) = mpsc::channel(64);
        let keyboard = self.keyboard.clone();
        std::thread::spawn(move || read_keys(&keyboard, &keys));
        let mut resized = signal(SignalKind::window_change())?;
        self.begin();
        loop {
            let (columns, lines) = terminal.size();
            terminal.show(draw::draw(&mut self.app, columns, lines, Timestamp::now()))?;
            tokio::select! {
                key = typed.recv() => {
                    match self.app.key(key.context("the terminal is gone")?) {
                        None => {}
                        Some(Effect::Quit) => return Ok(()),
                        Some(Effect::TakeOver(words)) => terminal = self.lend(terminal, &words).await?,
                        Some(effect) => self.carry_out(effect).await?,
                    }
                }
                Some(news) = self.news.1.recv() => self.take(news),
                Some(output) = self.output.1.recv() => {
                    self.print(output);
                    // What has come meanwhile is drawn at once.
                    while let Ok(output) = self.output.1.try_recv() {
                        self.print(output);
                    }
                }
                _ = resized.recv() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Follows the list that the state names, and no other.
    fn begin(&mut self) {
        if let Some(task) = self.follow.take() {
            task.abort();
        }
        self.news = mpsc::channel(4);
        let (kind, namespace) = (self.app.kind.clone(), self.app.namespace.clone());
        let following = cluster::follow(self.client.clone(), kind, namespace, self.news.0.clone());
        self.follow = Some(tokio::spawn(following));
    }

    fn take(&mut self, news: News) {
        match news {
            News::Rows(columns, rows) => {
                (self.app.columns, self.app.rows) = (columns, rows);
                self.app.loaded = true;
                self.app.trouble.clear();
            }
            News::Trouble(why) => self.app.trouble = plain(&why),
        }
    }

    fn print(&mut self, output: Output) {
        let Some(text) = &mut self.app.text else { return };
        match output {
            Output::Line(number, line) if number == self.number => text.push(plain(&line)),
            Output::Ended(number) if number == self.number => {
                text.ended = true;
                text.push(self.app.language.say(Word::Ended).to_owned());
            }
            _ => {}
        }
    }

    async fn carry_out(&mut self, effect: Effect) -> anyhow::Result<()> {
        match effect {
            // Whoever has the terminal does these.
            Effect::Quit | Effect::TakeOver(_) => {}
            Effect::Follow => self.begin(),
            Effect::Hide => self.hide(),
            Effect::Show(words) => {
                self.hide();
                self.number += 1;
                let (command, number, lines) = (self.command(&words)?, self.number, self.output.0.clone());
                self.shown = Some(tokio::spawn(show(command, number, lines)));
            }
            Effect::Run(words) => {
                let ended = self.command(&words)?.stdin(Stdio::null()).output().await?;
                let said = if ended.status.success() { ended.stdout } else { ended.stderr };
                self.app.message = plain(String::from_utf8_lossy(&said).trim());
            }
        }
        Ok(())
    }

    fn hide(&mut self) {
        if let Some(task) = self.shown.take() {
            task.abort();
        }
    }

    fn command(&self, words: &[String]) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("where this program is")?);
        command.args(&self.arguments).args(words).kill_on_drop(true);
        Ok(command)
    }

    /// Lets a command have the terminal, and takes it back.
    async fn lend(&mut self, terminal: Terminal, words: &[String]) -> anyhow::Result<Terminal> {
        let mut command = self.command(words)?;
        let keyboard = self.keyboard.clone();
        let lent = tokio::task::spawn_blocking(move || {
            // Whoever holds it waits for a key for a moment only.
            let held = keyboard.lock();
            drop(terminal);
            let ended = command.as_std_mut().status();
            let terminal = Terminal::enter();
            MutexGuard::unlock_fair(held);
            (ended, terminal)
        });
        let (ended, terminal) = lent.await?;
        if !ended?.success() {
            self.app.message =
                format!("{}: minik8s {}", self.app.language.say(Word::Failed), words.join(" "));
        }
        terminal
    }
}

/// All that the command prints, line by line.
async fn show(mut command: Command, number: u64, lines: mpsc::Sender<Output>) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match command.spawn() {
        Ok(mut child) => {
            let (out, err) = (child.stdout.take(), child.stderr.take());
            tokio::join!(read(out, number, &lines), read(err, number, &lines));
            // How it ended is in what it said.
            let _ = child.wait().await;
        }
        Err(error) => drop(lines.send(Output::Line(number, error.to_string())).await),
    }
    let _ = lines.send(Output::Ended(number)).await;
}

async fn read(from: Option<impl AsyncRead + Unpin>, number: u64, lines: &mpsc::Sender<Output>) {
    let Some(from) = from else { return };
    let mut from = BufReader::new(from).split(b'\n');
    while let Ok(Some(line)) = from.next_segment().await {
        let line = String::from_utf8_lossy(&line).into_owned();
        if lines.send(Output::Line(number, line)).await.is_err() {
            return;
        }
    }
}

/// Keys as they are typed, until nobody wants them.
fn read_keys(keyboard: &Mutex<()>, keys: &mpsc::Sender<Key>) {
    while !keys.is_closed() {
        let held = keyboard.lock();
        let typed = terminal::typed();
        MutexGuard::unlock_fair(held);
        let Ok(typed) = typed else { return };
        for key in keys::parse(&typed) {
            if keys.blocking_send(key).is_err() {
                return;
            }
        }
    }
}
