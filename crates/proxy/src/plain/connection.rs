//! A client's connection, request after request, for as long as they are plain.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::alarm::Alarm;
use super::answer::{self, Answered, Wanted};
use super::request::{self, Asked, Came};
use super::rest::{LAST_CHUNK, Rest, write_chunk};
use super::{Backend, Rewound};
use crate::answer::Refusal;
use crate::exchange::ExchangeError;
use crate::forward::{Failure, note_unconnected, two_tries};
use crate::metrics::LabelMetrics;
use crate::pool::Kept;
use crate::scratch;
use crate::tap::TappedRequest;
use crate::{Client, Front, Route, Worker};

/// Longer heads are not plain.
const LONGEST_REQUEST: usize = 16 * 1024;
const LONGEST_ANSWER_HEAD: usize = 64 * 1024;

/// Serves plain requests until the connection ends. If another kind of request comes, the connection with it.
pub(crate) async fn serve<F: Front, I>(worker: &Worker<F>, stream: I, client: &Client) -> Option<Rewound<I>>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Connection {
        worker,
        client,
        stream,
        input: Vec::new(),
        to_backend: Vec::new(),
        from_backend: Vec::new(),
        output: Vec::new(),
        alarm: Alarm::new(worker.shared.timeouts.client),
        counted: None,
    };
    match connection.serve().await {
        Ok(Next::NotPlain) => Some(Rewound::new(connection.input, connection.stream)),
        Ok(Next::End) => None,
        Err(error) => {
            debug!(client = %client.ip, %error, "a client's connection ended early");
            None
        }
    }
}

pub(super) struct Connection<'w, F: Front, I> {
    pub(super) worker: &'w Worker<F>,
    pub(super) client: &'w Client,
    stream: I,
    /// What the client sent and nobody has taken.
    input: Vec<u8>,
    to_backend: Vec<u8>,
    from_backend: Vec<u8>,
    output: Vec<u8>,
    pub(super) alarm: Alarm,
    /// Where requests of the last route are counted.
    counted: Option<(Arc<str>, Arc<LabelMetrics>)>,
}

/// What follows a request.
enum Next {
    End,
    NotPlain,
}

/// An answer whose head has come.
pub(super) struct Begun {
    backend: Backend,
    pub(super) head: Answered,
}

impl<F: Front, I: AsyncRead + AsyncWrite + Unpin> Connection<'_, F, I> {
    async fn serve(&mut self) -> io::Result<Next> {
        let worker = self.worker;
        let mut stopped = pin!(worker.stop.cancelled());
        self.alarm.set(Instant::now(), worker.shared.timeouts.client);
        loop {
            if self.input.is_empty() && !self.more_input(stopped.as_mut()).await? {
                return Ok(Next::End);
            }
            let table = worker.shared.table.borrow().clone();
            let telling = (worker.shared.tracer.get(), &*worker.shared.tap);
            let read = request::read::<F>(&self.input, &table, self.client, telling, &mut self.to_backend);
            let asked = match read {
                Came::Request(asked) => asked,
                Came::NotPlain => return Ok(Next::NotPlain),
                Came::Part if self.input.len() >= LONGEST_REQUEST => return Ok(Next::NotPlain),
                Came::Part => match self.more_input(stopped.as_mut()).await? {
                    true => continue,
                    false => return Ok(Next::End),
                },
            };
            self.take_input(asked.length);
            let closes = asked.closes || worker.stop.is_cancelled() || worker.shared.retiring.is_cancelled();
            // Large, and most connections wait most of the time.
            Box::pin(self.answer(asked, closes)).await?;
            if closes {
                let _ = self.stream.shutdown().await;
                return Ok(Next::End);
            }
            self.alarm.set(Instant::now(), worker.shared.timeouts.client);
        }
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        scratch::poll_read_into(Pin::new(&mut self.stream), cx, LONGEST_REQUEST, &mut self.input)
    }

    /// Idle connections are many.
    fn free_buffers(&mut self) {
        for buffer in [&mut self.input, &mut self.to_backend, &mut self.from_backend, &mut self.output] {
            *buffer = Vec::new();
        }
    }

    fn take_input(&mut self, length: usize) {
        match length == self.input.len() {
            true => self.input.clear(),
            false => drop(self.input.drain(..length)),
        }
    }

    /// Waits for the next bytes of the client; false if none are to be waited for any more.
    async fn more_input(&mut self, mut stopped: Pin<&mut impl Future<Output = ()>>) -> io::Result<bool> {
        poll_fn(|cx| {
            if let Poll::Ready(read) = self.poll_input(cx) {
                return Poll::Ready(read.map(|length| length > 0));
            }
            // What has begun may come to its end.
            let is_idle = self.input.is_empty();
            if is_idle {
                self.free_buffers();
            }
            let is_over = self.alarm.poll(cx).is_ready() || is_idle && stopped.as_mut().poll(cx).is_ready();
            if is_over { Poll::Ready(Ok(false)) } else { Poll::Pending }
        })
        .await
    }

    async fn answer(&mut self, asked: Asked<'_, F::Route>, closes: bool) -> io::Result<()> {
        let started = Instant::now();
        let worker = self.worker;
        let date = || worker.date();
        let wanted = Wanted { is_head: asked.is_head, closes, date: &date };
        let (label, begun) = match &asked.route {
            Ok(route) => (route.label(), self.lead(route, &asked, &wanted, started).await?),
            Err(refusal) => (&worker.no_label, Err(refusal.clone())),
        };
        let (code, took) = match &begun {
            Ok(begun) => (begun.head.code, started.elapsed()),
            Err(refusal) => (refusal.status.as_u16(), started.elapsed()),
        };
        self.count(label, code, took);
        if let (Some(tracer), Some(traced)) = (worker.shared.tracer.get(), asked.traced) {
            traced.end(tracer, F::METRICS.0, label, code, took);
        }
        if let Some([method, host, target]) = asked.log {
            debug!(target: "access", client = %self.client.ip, method, host, uri = target, code, ?took);
        }
        let endpoint = begun.as_ref().ok().map(|begun| begun.backend.address());
        let passed = match begun {
            Ok(begun) => self.pass_on(begun, asked.leaves_nothing).await,
            Err(refusal) => self.refuse(&refusal, &wanted).await,
        };
        if let Some(tapped) = asked.tapped {
            let rule = asked.route.as_ref().ok().and_then(|route| route.rule(endpoint));
            let bytes = *passed.as_ref().unwrap_or(&0);
            worker.shared.tap.tell(TappedRequest {
                label: label.clone(),
                rule,
                endpoint,
                code,
                took,
                bytes,
                ..*tapped
            });
        }
        passed.map(drop)
    }

    async fn refuse(&mut self, refusal: &Refusal, wanted: &Wanted<'_>) -> io::Result<u64> {
        answer::write_refusal(refusal, wanted, &mut self.output);
        self.stream.write_all(&self.output).await?;
        self.stream.flush().await?;
        Ok(0)
    }

    /// What the route wants to be done before, and how often.
    async fn lead(
        &mut self,
        route: &F::Route,
        asked: &Asked<'_, F::Route>,
        wanted: &Wanted<'_>,
        now: Instant,
    ) -> io::Result<Result<Begun, Refusal>> {
        let mut now = now;
        if let Some(address) = route.mirror() {
            self.worker.copies.send(address, self.worker.secured(address), self.to_backend.clone());
        }
        if let Some(pause) = route.delay() {
            sleep(pause).await;
            now = Instant::now();
        }
        match route.retry() {
            Some(retry) => self.exchange_with_retries(route, retry, asked.is_idempotent, wanted).await,
            None => self.exchange(route, asked.is_repeatable, wanted, now).await,
        }
    }

    /// Most requests on a connection have one route.
    fn count(&mut self, label: &Arc<str>, code: u16, took: Duration) {
        let known = self.counted.take().filter(|(known, _)| Arc::ptr_eq(known, label));
        let (_, metrics) = self
            .counted
            .insert(known.unwrap_or_else(|| (label.clone(), self.worker.shared.metrics.of(label))));
        metrics.count(code, took);
    }

    /// Hands the request over and waits for the head of the answer. A second try, at the next endpoint and on a new
    /// connection, if the first cannot have had an effect.
    async fn exchange(
        &mut self,
        route: &F::Route,
        is_repeatable: bool,
        wanted: &Wanted<'_>,
        now: Instant,
    ) -> io::Result<Result<Begun, Refusal>> {
        let endpoints = match route.endpoints_for(self.client) {
            Ok(endpoints) => endpoints,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (worker, mut timeouts) = (self.worker, self.worker.shared.timeouts);
        timeouts.answer = route.timeout().unwrap_or(timeouts.answer);
        let start = route.first(self.client, &worker.turn, endpoints.len());
        let (first, second) = two_tries(&endpoints, start);
        self.alarm.set(now, timeouts.answer);
        if let Ok((backend, was_pooled)) = worker.plain_backend(first, timeouts.connect).await {
            // From when it is sent: others may have been before it.
            self.alarm.set(Instant::now(), timeouts.answer);
            let may_repeat = was_pooled && is_repeatable;
            match self.try_with(backend, wanted).await? {
                Ok(begun) => {
                    route.outcome(first, begun.head.code >= 500);
                    return Ok(Ok(begun));
                }
                Err(ExchangeError::Unsent(_)) => {}
                Err(ExchangeError::Lost(_)) if may_repeat => {}
                Err(error) => {
                    route.outcome(first, true);
                    return Ok(Err(Failure::Exchange(first, error).refusal(route)));
                }
            }
        } else {
            note_unconnected(route, (first, second));
        }
        let connecting = Backend::connect(second, worker.secured(second), timeouts.connect);
        let backend = match Box::pin(connecting).await {
            Ok(backend) => backend,
            Err(error) => {
                route.outcome(second, true);
                return Ok(Err(Failure::Connect(second, error).refusal(route)));
            }
        };
        self.alarm.set(Instant::now(), timeouts.answer);
        let begun = self.try_with(backend, wanted).await?;
        route.outcome(second, begun.as_ref().map_or(true, |begun| begun.head.code >= 500));
        Ok(begun.map_err(|error| Failure::Exchange(second, error).refusal(route)))
    }

    /// The outer error is the client's: it is gone, and so is the reason to go on.
    pub(super) async fn try_with(
        &mut self,
        mut backend: Backend,
        wanted: &Wanted<'_>,
    ) -> io::Result<Result<Begun, ExchangeError>> {
        if let Err(error) = backend.write(&self.to_backend).await {
            return Ok(Err(error));
        }
        self.from_backend.clear();
        loop {
            let read = match poll_fn(|cx| self.poll_answer(&mut backend, cx)).await? {
                Ok(read) => read,
                Err(error) => return Ok(Err(error)),
            };
            if read == 0 {
                let error = match self.from_backend.is_empty() {
                    true => ExchangeError::Lost(io::ErrorKind::UnexpectedEof.into()),
                    false => ExchangeError::Unclear("it ends within its head"),
                };
                return Ok(Err(error));
            }
            loop {
                match answer::read(&self.from_backend, wanted, &mut self.output) {
                    // What comes before the answer is not for this client, who did not ask for it.
                    Ok(Some(head)) if head.code < 200 => drop(self.from_backend.drain(..head.length)),
                    Ok(Some(head)) => return Ok(Ok(Begun { backend, head })),
                    Ok(None) if self.from_backend.len() < LONGEST_ANSWER_HEAD => break,
                    Ok(None) => return Ok(Err(ExchangeError::Unclear("its head does not end"))),
                    Err(answer::Unclear) => return Ok(Err(ExchangeError::Unclear("it is not HTTP"))),
                }
            }
        }
    }

    /// Reads from the backend, and looks whether the client is still there.
    fn poll_answer(
        &mut self,
        backend: &mut Backend,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Result<usize, ExchangeError>>> {
        if let Poll::Ready(read) = backend.poll_read(cx, &mut self.from_backend) {
            let lost = |error| match self.from_backend.is_empty() {
                true => ExchangeError::Lost(error),
                false => ExchangeError::Unclear("it ends within its head"),
            };
            return Poll::Ready(Ok(read.map_err(lost)));
        }
        ready!(self.poll_client(cx)?);
        Poll::Ready(Ok(Err(ExchangeError::TimedOut)))
    }

    /// The same after the head.
    fn poll_rest(&mut self, backend: &mut Backend, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(read) = backend.poll_read(cx, &mut self.from_backend) {
            return Poll::Ready(read);
        }
        ready!(self.poll_client(cx)?);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ready when the backend was waited for long enough; fails when the client is gone.
    fn poll_client(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What comes early is the next request.
        while self.input.len() < LONGEST_REQUEST {
            match self.poll_input(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        self.alarm.poll(cx).map(Ok)
    }

    /// The rest of the answer, then the backend's connection is free for others. So many bytes came after the head.
    async fn pass_on(&mut self, Begun { mut backend, head }: Begun, may_keep: bool) -> io::Result<u64> {
        let mut passed = 0;
        let mut rest = Rest::of(head.body);
        let mut from = head.length;
        loop {
            let piece = &self.from_backend[from..];
            let taken = rest.take(piece)?;
            passed += taken as u64;
            let is_clean = taken == piece.len();
            match rest {
                Rest::UntilClose => write_chunk(&mut self.output, piece),
                // The head, and what came with it.
                _ if from > 0 => self.output.extend_from_slice(&piece[..taken]),
                _ => self.stream.write_all(&piece[..taken]).await?,
            }
            if !self.output.is_empty() {
                self.stream.write_all(&self.output).await?;
            }
            self.stream.flush().await?;
            if rest.is_over() {
                if head.is_kept && is_clean && may_keep {
                    self.worker.plain.put(backend);
                }
                return Ok(passed);
            }
            from = 0;
            self.output.clear();
            self.from_backend.clear();
            self.alarm.set(Instant::now(), self.worker.shared.timeouts.silence);
            if poll_fn(|cx| self.poll_rest(&mut backend, cx)).await? == 0 {
                let Rest::UntilClose = rest else { return Err(io::ErrorKind::UnexpectedEof.into()) };
                self.stream.write_all(LAST_CHUNK).await?;
                self.stream.flush().await?;
                return Ok(passed);
            }
        }
    }
}
