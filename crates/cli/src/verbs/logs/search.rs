//! Logs of many pods as one: merged by the time of their lines, only those that are wanted; with `--follow` also of pods
//! that come later.

use std::collections::HashSet;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;

use super::filter::{Filter, Line};
use super::{Logs, coloured, container, ended, forgiven, remote};
use crate::client::Call;
use crate::error::{Error, Result};
use crate::output;
use crate::session::Session;
use crate::verbs::pod_target;
use crate::watch;

/// A container's life: a restart is another one.
type Life = (String, String, i64);

/// What is searched.
struct Search<'a> {
    session: &'a Session,
    verb: &'a Logs,
    filter: &'a Filter,
}

/// A container's log, be it of a pod that is there or of one that is gone.
struct Source {
    call: Call,
    prefix: String,
}

pub async fn run(session: &Session, verb: &Logs, pods: &[Value], filter: &Filter) -> Result<()> {
    let search = Search { session, verb, filter };
    match verb.follow {
        true => search.follow(pods).await,
        false => search.merge(pods).await,
    }
}

impl Search<'_> {
    /// What has been printed so far, in order.
    async fn merge(&self, pods: &[Value]) -> Result<()> {
        if self.found_by_server(pods).await? {
            return Ok(());
        }
        let mut sources = Vec::new();
        for pod in pods {
            for name in self.containers(pod)? {
                sources.push(self.source(pod, &name, sources.len()));
            }
        }
        if self.verb.ended {
            for found in ended::find(self.session, self.verb).await? {
                let prefix = coloured(&found.place, sources.len());
                sources.push(Source { call: found.call, prefix });
            }
        }
        let mut open: Vec<_> = Vec::new();
        let begun = join_all(sources.iter().map(|source| self.begin(source))).await;
        for (begun, source) in begun.into_iter().zip(&sources) {
            match begun {
                Ok(reader) => open.push((reader, &source.prefix)),
                // One that has not begun has printed nothing.
                Err(Error::Server(error)) if error.code == 400 => {}
                Err(error) => forgiven(Err(error), self.verb)?,
            }
        }
        let mut heads: Vec<Option<Line>> = Vec::new();
        for (reader, _) in &mut open {
            heads.push(self.next(reader).await?);
        }
        // Each log is in order, so the earliest of their first lines is the earliest of all.
        while let Some(at) = earliest(&heads) {
            if let Some(line) = heads[at].take() {
                self.print(&line, open[at].1);
            }
            heads[at] = self.next(&mut open[at].0).await?;
        }
        Ok(())
    }

    /// Lets the server search, if it can. False if nothing was printed.
    async fn found_by_server(&self, pods: &[Value]) -> Result<bool> {
        if !remote::can_answer(self.verb) {
            return Ok(false);
        }
        let mut wanted: HashSet<(String, String, String)> = HashSet::new();
        for pod in pods {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
            wanted.extend(
                self.containers(pod)?.into_iter().map(|name| (text("namespace"), text("name"), name)),
            );
        }
        let asked = self.verb.container.as_ref().or(self.verb.words.get(1));
        let found = remote::search(self.session, self.verb, self.filter.until).await?;
        let Some(found) = found else { return Ok(false) };
        let mut prefixes = remote::Prefixes::default();
        for (place, is_ended, line) in found {
            let is_wanted = match is_ended {
                true => asked.is_none_or(|asked| *asked == place.2),
                false => wanted.contains(&place),
            };
            if is_wanted {
                let (namespace, pod, container) = place;
                let shown = match (is_ended, self.verb.all_namespaces) {
                    (true, _) => format!("[ended/{pod}/{container}]"),
                    (false, true) => format!("[{namespace}/{pod}/{container}]"),
                    (false, false) => format!("[pod/{pod}/{container}]"),
                };
                self.print(&line, prefixes.of(shown, is_ended, coloured));
            }
        }
        Ok(true)
    }

    /// As they come, of these pods and of those that come later.
    async fn follow(&self, pods: &[Value]) -> Result<()> {
        let mut known: HashSet<Life> = HashSet::new();
        let mut streams: FuturesUnordered<BoxFuture<'_, Result<()>>> = FuturesUnordered::new();
        for pod in pods {
            self.begin_new(pod, &mut known, &mut streams)?;
        }
        if self.verb.selectors.selector.is_none() && !self.verb.all_namespaces {
            while let Some(ended) = streams.next().await {
                forgiven(ended, self.verb)?;
            }
            return Ok(());
        }
        loop {
            // Begins with those that are there; a watch that the server ends is opened again.
            let call = super::list_call(self.session, self.verb).await?;
            let mut changes = watch::open(self.session.client().await?, call).await?;
            loop {
                tokio::select! {
                    event = changes.next() => match event? {
                        Some(event) if matches!(event.kind.as_str(), "ADDED" | "MODIFIED") => {
                            self.begin_new(&event.object, &mut known, &mut streams)?;
                        }
                        Some(_) => {}
                        None => break,
                    },
                    Some(ended) = streams.next(), if !streams.is_empty() => forgiven(ended, self.verb)?,
                }
            }
        }
    }

    /// Starts with the containers of a pod that run and were not known.
    fn begin_new<'a>(
        &'a self,
        pod: &Value,
        known: &mut HashSet<Life>,
        streams: &mut FuturesUnordered<BoxFuture<'a, Result<()>>>,
    ) -> Result<()> {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        for name in self.containers(pod)? {
            let Some(status) = status_of(pod, &name) else { continue };
            let has_begun = !status["state"]["running"].is_null() || !status["state"]["terminated"].is_null();
            let life = (uid.to_owned(), name.clone(), status["restartCount"].as_i64().unwrap_or(0));
            if has_begun && known.insert(life) {
                let source = self.source(pod, &name, known.len());
                streams.push(async move { self.show(&source).await }.boxed());
            }
        }
        Ok(())
    }

    async fn show(&self, source: &Source) -> Result<()> {
        let mut reader = self.begin(source).await?;
        while let Some(line) = self.next(&mut reader).await? {
            self.print(&line, &source.prefix);
        }
        Ok(())
    }

    fn containers(&self, pod: &Value) -> Result<Vec<String>> {
        match self.verb.all_containers {
            true => Ok(pod_target::containers(pod)),
            false => Ok(vec![container(self.session, self.verb, pod)?]),
        }
    }

    fn source(&self, pod: &Value, container: &str, number: usize) -> Source {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/pods/{}/log", text("namespace"), text("name"));
        let verb = self.verb;
        let tail = verb.tail.filter(|tail| *tail >= 0);
        let call = Call::get(path)
            .query("container", container)
            .query("timestamps", "true")
            .maybe("follow", verb.follow.then_some("true"))
            .maybe("previous", verb.previous.then_some("true"))
            .maybe("tailLines", tail.map(|tail| tail.to_string()))
            .maybe("sinceSeconds", verb.since.map(|since| since.as_secs_f64().ceil().to_string()))
            .maybe("sinceTime", verb.since_time.clone())
            .accept("*/*");
        let place = match verb.all_namespaces {
            true => format!("[{}/{}/{container}]", text("namespace"), text("name")),
            false => format!("[pod/{}/{container}]", text("name")),
        };
        Source { call, prefix: coloured(&place, number) }
    }

    async fn begin(&self, source: &Source) -> Result<impl AsyncBufRead + Unpin + Send + use<>> {
        self.session.client().await?.stream(source.call.clone()).await
    }

    /// The next line that is wanted; None at the end, or where all that follows is too new.
    async fn next(&self, reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Line>> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            if reader.read_until(b'\n', &mut bytes).await? == 0 {
                return Ok(None);
            }
            let Some(line) = Line::parse(&bytes) else { continue };
            if self.filter.until.is_some_and(|until| line.time > until) {
                return Ok(None);
            }
            if self.filter.takes(&line) {
                return Ok(Some(line));
            }
        }
    }

    fn print(&self, line: &Line, prefix: &str) {
        let mut bytes = prefix.as_bytes().to_vec();
        if self.verb.timestamps {
            bytes.extend(format!("{} ", line.time).bytes());
        }
        bytes.extend(&line.text);
        bytes.push(b'\n');
        output::bytes(&bytes);
    }
}

fn earliest(heads: &[Option<Line>]) -> Option<usize> {
    let there = heads.iter().enumerate().filter_map(|(at, line)| Some((line.as_ref()?.time, at)));
    there.min().map(|(_, at)| at)
}

fn status_of<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let all = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    all.into_iter().find(|status| status["name"] == container)
}
