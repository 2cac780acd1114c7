//! The newest lines of all that were found, bounded in number and bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::Timestamp;

use super::FoundLine;

const MOST_BYTES: usize = 8 << 20;

pub struct Newest {
    limit: usize,
    /// The oldest first; lines of one time in the order in which they came.
    lines: BinaryHeap<Reverse<Ordered>>,
    came: u64,
    bytes: usize,
    dropped: bool,
}

struct Ordered {
    at: (Timestamp, u64),
    line: FoundLine,
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl Newest {
    pub fn new(limit: usize) -> Self {
        Newest { limit, lines: BinaryHeap::new(), came: 0, bytes: 0, dropped: false }
    }

    /// Whether a line of that time would be kept; if not, it need not be made.
    pub fn wants(&mut self, time: Timestamp) -> bool {
        let is_full = self.lines.len() >= self.limit;
        let is_wanted = !is_full || self.lines.peek().is_some_and(|oldest| oldest.0.at.0 <= time);
        self.dropped |= !is_wanted;
        is_wanted
    }

    pub fn push(&mut self, line: FoundLine) {
        self.bytes += line.text.len();
        self.came += 1;
        self.lines.push(Reverse(Ordered { at: (line.time, self.came), line }));
        while self.lines.len() > self.limit || (self.bytes > MOST_BYTES && self.lines.len() > 1) {
            let Some(Reverse(oldest)) = self.lines.pop() else { break };
            self.bytes -= oldest.line.text.len();
            self.dropped = true;
        }
    }

    pub fn merge(&mut self, other: Newest) {
        self.dropped |= other.dropped;
        for Reverse(Ordered { line, .. }) in other.lines.into_sorted_vec().into_iter().rev() {
            if self.wants(line.time) {
                self.push(line);
            }
        }
    }

    /// By time, and whether there were more.
    pub fn finish(self) -> (Vec<FoundLine>, bool) {
        let lines = self.lines.into_sorted_vec().into_iter().rev().map(|Reverse(ordered)| ordered.line);
        (lines.collect(), self.dropped)
    }
}
