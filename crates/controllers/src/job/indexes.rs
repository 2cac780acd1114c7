//! Sets of completion indexes, written as `0,3-5,9`.

use std::collections::BTreeSet;

/// More indexes than this no Job may have.
const MOST: i32 = 1_000_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(BTreeSet<i32>);

impl Indexes {
    /// Parts that make no sense, and indexes beyond `bound`, are left out.
    pub fn parse(text: &str, bound: i32) -> Self {
        let mut indexes = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.trim().parse::<i32>(), last.trim().parse::<i32>()) else {
                continue;
            };
            indexes.extend(first.max(0)..=last.min(bound.min(MOST) - 1));
        }
        Indexes(indexes)
    }

    pub fn insert(&mut self, index: i32) -> bool {
        self.0.insert(index)
    }

    pub fn contains(&self, index: i32) -> bool {
        self.0.contains(&index)
    }

    pub fn len(&self) -> i32 {
        i32::try_from(self.0.len()).unwrap_or(i32::MAX)
    }

    /// How many are in both.
    pub fn common(&self, other: &Indexes) -> i32 {
        i32::try_from(self.0.intersection(&other.0).count()).unwrap_or(i32::MAX)
    }

    /// Three in a row and more become a range.
    pub fn format(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut run: Option<(i32, i32)> = None;
        let write = |run: Option<(i32, i32)>, parts: &mut Vec<String>| match run {
            Some((first, last)) if first == last => parts.push(first.to_string()),
            Some((first, last)) if first + 1 == last => parts.extend([first.to_string(), last.to_string()]),
            Some((first, last)) => parts.push(format!("{first}-{last}")),
            None => {}
        };
        for &index in &self.0 {
            run = match run {
                Some((first, last)) if last + 1 == index => Some((first, index)),
                finished => {
                    write(finished, &mut parts);
                    Some((index, index))
                }
            };
        }
        write(run, &mut parts);
        parts.join(",")
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<T: IntoIterator<Item = i32>>(indexes: T) -> Self {
        Indexes(indexes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms() {
        let check = |text: &str, count: i32, written: &str| {
            let indexes = Indexes::parse(text, 100);
            assert_eq!((indexes.len(), indexes.format().as_str()), (count, written), "{text}");
        };
        check("", 0, "");
        check("1", 1, "1");
        check("1,2", 2, "1,2");
        check("1-3", 3, "1-3");
        check("0,3-5,9", 5, "0,3-5,9");
        check("5-3,x,-1,200-300", 0, "");
        check("98-2000000000", 2, "98,99");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(set in prop::collection::btree_set(0i32..500, 0..60)) {
            let indexes = Indexes(set);
            prop_assert_eq!(Indexes::parse(&indexes.format(), 500), indexes);
        }
    }
}
