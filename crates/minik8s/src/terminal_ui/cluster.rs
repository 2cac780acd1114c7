//! What the cluster tells: its kinds, and one list as it changes. A table is listed and then watched; what ends is begun
//! anew, ever more seldom. Nothing is kept that is not shown.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::{AsyncBufReadExt, StreamExt};
use kube::Client;
use minik8s_meta::Backoff;
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use super::table::{self, Column, Kind, Row};

const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const PAGE: usize = 1000;
/// Changes that come together are shown together.
const PAUSE: Duration = Duration::from_millis(100);
const RETRY: Backoff = Backoff::millis(500, 10_000);

/// Where a watch goes on after this event.
fn version_of(event: &Value) -> Option<String> {
    let of = |metadata: &Value| {
        metadata["resourceVersion"].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let rows = event["object"]["rows"].as_array();
    of(&event["object"]["metadata"]).or_else(|| of(&rows?.last()?["object"]["metadata"]))
}

/// News of a list.
#[derive(Debug)]
pub enum News {
    Rows(Vec<Column>, Vec<Row>),
    Trouble(String),
}

pub async fn kinds(client: &Client) -> anyhow::Result<Vec<Kind>> {
    let mut found = Vec::new();
    for path in ["/api", "/apis"] {
        let request = http::Request::get(path).header(http::header::ACCEPT, AGGREGATED).body(Vec::new())?;
        let discovery: Value = client.request(request).await.context("the cluster does not answer")?;
        found.extend(table::kinds(&discovery));
    }
    Ok(found)
}

/// Tells of the objects of a kind until nobody listens.
pub async fn follow(client: Client, kind: Kind, namespace: String, news: Sender<News>) {
    let mut retries = RETRY.retries();
    let mut list =
        List { path: kind.path(&namespace), client, columns: Vec::new(), rows: HashMap::new(), news };
    loop {
        match list.run().await {
            Ok(()) => retries.succeeded(),
            Err(error) => {
                if list.news.send(News::Trouble(format!("{error:#}"))).await.is_err() {
                    return;
                }
                tokio::time::sleep(retries.failed()).await;
            }
        }
        if list.news.is_closed() {
            return;
        }
    }
}

struct List {
    client: Client,
    path: String,
    columns: Vec<Column>,
    rows: HashMap<String, Row>,
    news: Sender<News>,
}

impl List {
    /// Lists and watches, until the watch ends.
    async fn run(&mut self) -> anyhow::Result<()> {
        let mut version = self.list().await?;
        self.tell().await?;
        loop {
            let query = format!("watch=1&allowWatchBookmarks=true&resourceVersion={version}");
            let request = http::Request::get(format!("{}?{query}", self.path));
            let request = request.header(http::header::ACCEPT, AS_TABLE).body(Vec::new())?;
            let client = self.client.clone();
            let mut lines = std::pin::pin!(client.request_stream(request).await?.lines());
            let mut is_new = false;
            loop {
                let next =
                    tokio::time::timeout(if is_new { PAUSE } else { Duration::MAX }, lines.next()).await;
                let Ok(next) = next else {
                    self.tell().await?;
                    is_new = false;
                    continue;
                };
                let Some(line) = next else { break };
                let event: Value = serde_json::from_str(&line?)?;
                if event["type"] == "ERROR" {
                    bail!("{}", event["object"]["message"].as_str().unwrap_or("the watch has ended"));
                }
                if let Some(newer) = version_of(&event) {
                    version = newer;
                }
                is_new |= self.take(&event);
            }
            if is_new {
                self.tell().await?;
            }
        }
    }

    /// All rows, page by page; the version to watch from.
    async fn list(&mut self) -> anyhow::Result<String> {
        let mut found = HashMap::new();
        let mut next = String::new();
        loop {
            let path = format!("{}?limit={PAGE}&continue={next}", self.path);
            let request = http::Request::get(path).header(http::header::ACCEPT, AS_TABLE).body(Vec::new())?;
            let page: Value = self.client.request(request).await?;
            if let Some(columns) = table::columns(&page) {
                self.columns = columns;
            }
            found.extend(table::rows(&page).into_iter().map(|row| (row.uid.clone(), row)));
            let metadata = &page["metadata"];
            match metadata["continue"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => token.clone_into(&mut next),
                None => {
                    self.rows = found;
                    return Ok(metadata["resourceVersion"].as_str().unwrap_or_default().to_owned());
                }
            }
        }
    }

    /// Whether anything is to be shown anew.
    fn take(&mut self, event: &Value) -> bool {
        if event["type"] == "BOOKMARK" {
            return false;
        }
        let rows = table::rows(&event["object"]);
        let is_new = !rows.is_empty();
        for row in rows {
            match event["type"] == "DELETED" {
                true => drop(self.rows.remove(&row.uid)),
                false => drop(self.rows.insert(row.uid.clone(), row)),
            }
        }
        is_new
    }

    async fn tell(&self) -> anyhow::Result<()> {
        let news = News::Rows(self.columns.clone(), self.rows.values().cloned().collect());
        self.news.send(news).await.context("nobody looks any more")
    }
}
