//! What other parts of the agent tell at paths of its port, for the API server alone. The kubelet knows neither the paths
//! nor what is told; its own paths come first.

use std::fmt;
use std::sync::Arc;

/// By the parts of a path, as JSON.
type Page = Arc<dyn Fn(&[&str]) -> Option<String> + Send + Sync>;

#[derive(Clone, Default)]
pub struct FeaturePages(Vec<Page>);

impl FeaturePages {
    pub fn add(&mut self, page: impl Fn(&[&str]) -> Option<String> + Send + Sync + 'static) {
        self.0.push(Arc::new(page));
    }

    /// What whoever has the path tells now.
    pub fn read(&self, path: &[&str]) -> Option<String> {
        self.0.iter().find_map(|page| page(path))
    }
}

impl fmt::Debug for FeaturePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FeaturePages").field(&self.0.len()).finish()
    }
}
