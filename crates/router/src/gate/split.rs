//! Which revision each request goes to, where several get a part of them: exact over any hundred requests, and by count
//! rather than by chance. Pure.

use minik8s_meta::function::FunctionShare;

/// Nobody's while one revision gets all.
#[derive(Debug, Default)]
pub struct Split {
    shares: Vec<(FunctionShare, u64)>,
    total: u64,
}

impl Split {
    /// Begins to count anew where the parts have changed.
    pub fn apply(&mut self, shares: &[FunctionShare]) {
        if self.shares.iter().map(|(share, _)| share).ne(shares) {
            *self = Split { shares: shares.iter().map(|share| (share.clone(), 0)).collect(), total: 0 };
        }
    }

    /// How many revisions get requests, where it is not all the same.
    pub fn count(&self) -> usize {
        self.shares.len()
    }

    /// The revision that is furthest behind its part.
    pub fn next(&mut self) -> Option<String> {
        self.total += 1;
        let total = self.total;
        let behind = |(share, sent): &(FunctionShare, u64)| {
            i128::from(share.percent) * i128::from(total) - 100 * i128::from(*sent)
        };
        let (share, sent) =
            self.shares.iter_mut().filter(|(share, _)| share.percent > 0).max_by_key(|one| behind(one))?;
        *sent += 1;
        Some(share.revision.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(parts: &[(&str, u32)]) -> Vec<FunctionShare> {
        parts
            .iter()
            .map(|(name, percent)| FunctionShare { revision: (*name).to_owned(), percent: *percent })
            .collect()
    }

    #[test]
    fn requests_are_split_as_the_parts_say() {
        let mut split = Split::default();
        assert_eq!((split.next(), split.count()), (None, 0));
        for parts in
            [&[("a", 10), ("b", 90)][..], &[("a", 33), ("b", 33), ("c", 34)], &[("a", 0), ("b", 100)]]
        {
            split.apply(&shares(parts));
            for _ in 0..3 {
                let hundred: Vec<String> = (0..100).filter_map(|_| split.next()).collect();
                for (name, percent) in parts {
                    let count = hundred.iter().filter(|one| one == name).count();
                    assert_eq!(count, *percent as usize, "{name} of {parts:?}");
                }
            }
        }
    }

    #[test]
    fn the_same_parts_are_counted_on() {
        let mut split = Split::default();
        let parts = shares(&[("a", 50), ("b", 50)]);
        split.apply(&parts);
        let first = split.next();
        split.apply(&parts);
        assert_ne!(split.next(), first);
    }
}
