//! MetricsPages of other parts of the agent, which its port shows below its own.

use std::fmt;
use std::sync::Arc;

type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// Pages in Prometheus' text format.
#[derive(Clone, Default)]
pub struct MetricsPages(Vec<Page>);

impl MetricsPages {
    pub fn add(&mut self, page: impl Fn() -> String + Send + Sync + 'static) {
        self.0.push(Arc::new(page));
    }

    /// All of them as they are now.
    pub fn page(&self) -> String {
        self.0.iter().map(|page| page()).collect()
    }
}

impl fmt::Debug for MetricsPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetricsPages").field(&self.0.len()).finish()
    }
}
