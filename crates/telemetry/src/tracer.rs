//! Who tells of requests: decides by the trace that a request belongs to, or by chance, and never waits.

use std::time::{Duration, SystemTime};

use crate::{Queue, Span, SpanKind, TraceContext};

/// Of one process; cheap to clone.
#[derive(Debug, Clone)]
pub struct Tracer {
    queue: Queue<Span>,
    /// Of requests that come without a trace, those whose trace's name is below it are told of.
    threshold: u64,
}

/// A request that is worked on.
#[derive(Debug, Clone, Copy)]
pub struct RequestSpan {
    /// What the work that it causes belongs to.
    pub context: TraceContext,
    parent: Option<u64>,
    start: SystemTime,
}

impl Tracer {
    /// `ratio`: how many of the requests that come without a trace are told of, from 0 to 1. Of others their client decides.
    pub fn new(queue: Queue<Span>, ratio: f64) -> Self {
        // The cast saturates.
        Tracer { queue, threshold: (ratio.clamp(0.0, 1.0) * u64::MAX as f64) as u64 }
    }

    /// How many of the requests that come without a trace are told of.
    pub fn ratio(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    /// Tells of a span that was made elsewhere.
    pub fn tell(&self, span: Span) {
        self.queue.push(span);
    }

    /// Begins the span of a request, given its `traceparent`. One that cannot be read is as none.
    pub fn begin(&self, traceparent: Option<&str>) -> RequestSpan {
        let parent: Option<TraceContext> = traceparent.and_then(|text| text.trim().parse().ok());
        let context = match parent {
            Some(parent) => parent.child(),
            None => {
                let new = TraceContext::new(false);
                // The lower half of a trace's name is random, and the same wherever it is asked.
                TraceContext { sampled: (new.trace_id as u64) <= self.threshold && self.threshold > 0, ..new }
            }
        };
        RequestSpan { context, parent: parent.map(|parent| parent.span_id), start: SystemTime::now() }
    }

    /// Its end; what is to be told of it is made only where it is told.
    pub fn end(&self, span: RequestSpan, took: Duration, describe: impl FnOnce() -> Described) {
        if !span.context.sampled {
            return;
        }
        let Described { service, name, attributes, failed } = describe();
        self.queue.push(Span {
            service,
            name,
            kind: SpanKind::Server,
            context: span.context,
            parent: span.parent,
            start: span.start,
            end: span.start + took,
            attributes,
            failed,
        });
    }
}

/// What a span says beside its place in the trace.
#[derive(Debug)]
pub struct Described {
    pub service: &'static str,
    pub name: String,
    pub attributes: Vec<(&'static str, String)>,
    pub failed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Described {
        Described { service: "s", name: "n".into(), attributes: Vec::new(), failed: false }
    }

    #[test]
    fn client_decides_of_its_own_trace_and_the_ratio_of_others() {
        let check = |ratio: f64, parent: Option<&str>, want: usize| {
            let queue = Queue::new("spans", 1 << 20);
            let tracer = Tracer::new(queue.clone(), ratio);
            for _ in 0..1000 {
                tracer.end(tracer.begin(parent), Duration::ZERO, described);
            }
            let told = queue.take().len();
            // By chance only where it is neither none nor all.
            let tolerance = if (1..1000).contains(&want) { 100 } else { 0 };
            assert!(told.abs_diff(want) <= tolerance, "{ratio} {parent:?}: {told}");
        };
        check(0.0, None, 0);
        check(1.0, None, 1000);
        check(0.25, None, 250);
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0";
        check(0.0, Some(&format!("{parent}1")), 1000);
        check(1.0, Some(&format!("{parent}0")), 0);
        check(1.0, Some("nonsense"), 1000);
    }

    #[test]
    fn span_belongs_to_the_trace_of_its_request() {
        let queue = Queue::new("spans", 1 << 20);
        let tracer = Tracer::new(queue.clone(), 0.0);
        let parent: TraceContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
        let begun = tracer.begin(Some(&parent.to_string()));
        tracer.end(begun, Duration::from_millis(5), described);
        let span = queue.take().remove(0);
        assert_eq!((span.context.trace_id, span.parent), (parent.trace_id, Some(parent.span_id)));
        assert_eq!(span.context, begun.context);
        assert_eq!(span.end.duration_since(span.start).unwrap(), Duration::from_millis(5));
    }
}
