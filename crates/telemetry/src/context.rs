//! W3C trace context: which trace a request belongs to, and which span has caused it.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The header that carries it.
pub const TRACEPARENT: &str = "traceparent";

/// `00-TRACE-SPAN-FLAGS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: u128,
    pub span_id: u64,
    /// Whether spans of it are told to collectors.
    pub sampled: bool,
}

impl TraceContext {
    /// A trace and a span of its own. Names are drawn from a keyed hash of a counter: nobody can tell the next.
    pub fn new(sampled: bool) -> Self {
        let [high, low, span] = random();
        // All zeros would be no name.
        TraceContext { trace_id: u128::from(high) << 64 | u128::from(low | 1), span_id: span | 1, sampled }
    }

    /// Another span of the same trace.
    pub fn child(self) -> Self {
        TraceContext { span_id: random()[2] | 1, ..self }
    }
}

fn random() -> [u64; 3] {
    static KEYS: OnceLock<[RandomState; 3]> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let keys = KEYS.get_or_init(Default::default);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    [0, 1, 2].map(|at: usize| keys[at].hash_one(count))
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

impl FromStr for TraceContext {
    type Err = ();

    /// By the rules of the recommendation: lower case, no name of zeros; a later version may say more behind.
    fn from_str(text: &str) -> Result<Self, ()> {
        let version = text.get(..2).filter(|version| is_hex(version) && *version != "ff").ok_or(())?;
        let is_whole = text.len() == 55 || (version != "00" && text.as_bytes().get(55) == Some(&b'-'));
        let dashes = [2, 35, 52].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
        let (Some(trace), Some(span), Some(flags)) = (text.get(3..35), text.get(36..52), text.get(53..55))
        else {
            return Err(());
        };
        if !is_whole || !dashes || ![trace, span, flags].iter().all(|part| is_hex(part)) {
            return Err(());
        }
        let trace_id = u128::from_str_radix(trace, 16).map_err(drop)?;
        let span_id = u64::from_str_radix(span, 16).map_err(drop)?;
        let flags = u8::from_str_radix(flags, 16).map_err(drop)?;
        let is_named = trace_id != 0 && span_id != 0;
        is_named.then_some(TraceContext { trace_id, span_id, sampled: flags & 1 == 1 }).ok_or(())
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_of_the_form_and_differ() {
        let made = [TraceContext::new(true), TraceContext::new(false)];
        for context in made {
            assert_eq!(context.to_string().parse(), Ok(context));
            let child = context.child();
            assert_eq!((child.trace_id, child.sampled), (context.trace_id, context.sampled));
            assert_ne!(child.span_id, context.span_id);
        }
        assert_ne!(made[0].trace_id, made[1].trace_id);
    }

    #[test]
    fn what_is_no_context_is_refused() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let check = |text: &str, want: bool| assert_eq!(text.parse::<TraceContext>().is_ok(), want, "{text}");
        check(good, true);
        assert!(good.parse::<TraceContext>().unwrap().sampled);
        check(&good.replace("-01", "-00"), true);
        check(&good.replace("00-0a", "cc-0a"), true);
        check(&format!("{}-what-comes-later", good.replace("00-0a", "cc-0a")), true);
        check(&format!("{good}-more"), false);
        check(&good.replace("00-0a", "ff-0a"), false);
        check(&good.to_uppercase(), false);
        check("00-00000000000000000000000000000000-b7ad6b7169203331-01", false);
        check("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false);
        check("00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01", false);
        check(&good[..54], false);
        check("", false);
        check("00-äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü", false);
    }
}
