//! Calls that are under way: a second one for the same thing is refused, as CSI wants it.
//!
//! A mount whose servers are away keeps whoever touches it waiting. Callers give up and ask again; without this, each try
//! would leave one more thread behind.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::SharedError;

#[derive(Default)]
pub struct Pending(Mutex<BTreeSet<String>>);

/// Until it is dropped, nobody else begins the same.
pub struct Begun<'a> {
    pending: &'a Pending,
    what: String,
}

impl Pending {
    pub fn begin(&self, what: String) -> Result<Begun<'_>, SharedError> {
        match self.0.lock().insert(what.clone()) {
            true => Ok(Begun { pending: self, what }),
            false => Err(SharedError::Pending(what)),
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.pending.0.lock().remove(&self.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_call_is_refused_while_it_is_under_way() {
        let pending = Pending::default();
        let first = pending.begin("stats /a".to_owned()).unwrap();
        assert!(pending.begin("stats /a".to_owned()).is_err());
        assert!(pending.begin("stats /b".to_owned()).is_ok());
        drop(first);
        assert!(pending.begin("stats /a".to_owned()).is_ok());
    }
}
