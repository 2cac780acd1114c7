//! What is kept of the pages of all roles, for as long as somebody asks for them.

use std::time::Duration;

use futures::future::join_all;
use minik8s_api::ReadError;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::lists::Lists;
use super::rendered::{Page, Rendered};
use super::role::Role;
use super::selection::Selection;

/// Prometheus asks every few seconds, at most every few minutes. Who has not asked for so long pays for a whole page.
const UNUSED: Duration = Duration::from_secs(5 * 60);

/// One for each role. Empty until somebody asks.
#[derive(Debug, Default)]
pub struct Pages([Kept; Role::COUNT]);

#[derive(Debug, Default)]
struct Kept {
    rendered: Mutex<Rendered>,
    asked: Notify,
}

impl Pages {
    pub fn page(&self, role: Role, lists: &Lists, selection: &Selection) -> Result<Page, ReadError> {
        let kept = &self.0[role.index()];
        kept.asked.notify_one();
        kept.rendered.lock().page(role, lists, selection)
    }

    /// Until `stop`: forgets what nobody asks for. No timer runs while nothing is kept.
    pub async fn forget_unused(&self, stop: CancellationToken) {
        let each = join_all(self.0.iter().map(Kept::forget_unused));
        stop.run_until_cancelled(each).await;
    }

    /// Bytes of what is kept.
    pub fn kept(&self) -> usize {
        self.0.iter().map(|kept| kept.rendered.lock().kept()).sum()
    }
}

impl Kept {
    async fn forget_unused(&self) {
        loop {
            self.asked.notified().await;
            while timeout(UNUSED, self.asked.notified()).await.is_ok() {}
            self.rendered.lock().clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use minik8s_api::{Stored, StoredObject};
    use serde_json::json;

    use super::*;
    use crate::discovery::Kind;

    fn lists() -> Lists {
        let parse = |_: &StoredObject| {
            Ok(json!({"metadata": {"name": "n"}, "status": {"addresses": [
                {"type": "InternalIP", "address": "192.0.2.1"}]}}))
        };
        let node = StoredObject::new("/registry/nodes/n".into(), 16, 1, Bytes::new(), Arc::new(parse));
        let mut lists = Lists::default();
        lists.put(Kind::Node, Stored { revision: 1, objects: vec![node] });
        lists
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_forgotten_when_nobody_asks() {
        let (pages, stop) = (Arc::new(Pages::default()), CancellationToken::new());
        let task = tokio::spawn({
            let (pages, stop) = (pages.clone(), stop.clone());
            async move { pages.forget_unused(stop).await }
        });
        let ask = || pages.page(Role::Node, &lists(), &Selection::default()).unwrap();
        for _ in 0..4 {
            ask();
            tokio::time::sleep(UNUSED - Duration::from_secs(1)).await;
            assert!(pages.kept() > 0);
        }
        assert_eq!(ask().written, 0, "it is asked for often enough");
        tokio::time::sleep(UNUSED + Duration::from_secs(1)).await;
        assert_eq!(pages.kept(), 0);
        assert_eq!(ask().written, 1, "made anew for who comes back");
        assert!(pages.kept() > 0);
        stop.cancel();
        task.await.unwrap();
    }
}
