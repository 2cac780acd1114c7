//! Clients that read and swap the same few objects, and remember every question and answer.

use std::time::{Duration, Instant};

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::history::{Answer, Moment, Operation, What};
use super::{MAPS, version};
use crate::harness::control_plane::{Connection, Credentials};

pub const OBJECTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(40);
/// A client asks again when it has had no answer for this long; the server may still act on the question.
const TIMEOUT: Duration = Duration::from_secs(5);

pub fn name(object: usize) -> String {
    format!("register-{object}")
}

pub async fn create(connection: &mut Connection) -> Result<()> {
    for object in 0..OBJECTS {
        let body = json!({"metadata": {"name": name(object)}, "data": {"value": "first"}});
        let (code, answer) = connection.send(Method::POST, MAPS, "application/json", &body).await?;
        anyhow::ensure!(code == 201, "{answer}");
    }
    Ok(())
}

/// One client; its operations on each object.
pub struct Client {
    id: usize,
    turn: usize,
    start: Instant,
    pub histories: Vec<Vec<Operation>>,
}

impl Client {
    pub fn new(id: usize, start: Instant) -> Client {
        Client { id, turn: 0, start, histories: vec![Vec::new(); OBJECTS] }
    }

    pub async fn run(mut self, credentials: Credentials, finished: watch::Receiver<bool>) -> Client {
        while !*finished.borrow() {
            let connected = tokio::time::timeout(TIMEOUT, credentials.connect()).await;
            if let Ok(Ok(mut connection)) = connected {
                while !*finished.borrow() && self.turn(&mut connection).await.is_ok() {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        self
    }

    fn now(&self) -> Moment {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(Moment::MAX)
    }

    /// Reads an object and swaps it. An error means that the connection is of no use any more.
    async fn turn(&mut self, connection: &mut Connection) -> Result<()> {
        self.turn += 1;
        let object = (self.turn + self.id) % OBJECTS;
        let path = format!("{MAPS}/{}", name(object));
        let begun = self.now();
        let (code, found) = tokio::time::timeout(TIMEOUT, connection.get(&path)).await??;
        anyhow::ensure!(code == 200, "{code}");
        let value = found["data"]["value"].as_str().unwrap_or_default().to_owned();
        self.note(object, begun, true, What::Read { version: version(&found), value });
        if self.turn.is_multiple_of(3) {
            return Ok(());
        }
        let begun = self.now();
        let mut wanted = found.clone();
        let value = format!("swap-{}-{}", self.id, self.turn);
        wanted["data"]["value"] = value.clone().into();
        let sent = connection.send(Method::PUT, &path, "application/json", &wanted);
        let answered = tokio::time::timeout(TIMEOUT, sent).await;
        let (answer, outcome) = match answered {
            Ok(Ok((200, made))) => (Answer::Done(version(&made)), Ok(())),
            Ok(Ok((409, _))) => (Answer::Conflict, Ok(())),
            Ok(Ok((code, answer))) => (Answer::Unknown, Err(anyhow::anyhow!("{code}: {answer}"))),
            Ok(Err(error)) => (Answer::Unknown, Err(error)),
            Err(late) => (Answer::Unknown, Err(late.into())),
        };
        let what = What::Swap { expected: version(&found), value, answer };
        self.note(object, begun, answer != Answer::Unknown, what);
        outcome
    }

    fn note(&mut self, object: usize, begun: Moment, answered: bool, what: What) {
        let ended = answered.then(|| self.now());
        self.histories[object].push(Operation { begun, ended, what });
    }
}

/// What is there at the end, as one more read.
pub fn last_read(found: &Value, start: Instant) -> Operation {
    let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(Moment::MAX);
    let value = found["data"]["value"].as_str().unwrap_or_default().to_owned();
    Operation { begun: now, ended: Some(now + 1), what: What::Read { version: version(found), value } }
}
