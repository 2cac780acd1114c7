//! The values of one thing over time: a minute in full, an hour in steps.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// All points of this last time are kept.
const FINE: SignedDuration = SignedDuration::from_secs(60);
/// Of older ones, one per step.
const STEP: SignedDuration = SignedDuration::from_secs(30);
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// However fast they come.
const MOST_POINTS: usize = 64 + 120;

/// One measurement. Which numbers are counters and which amounts is the reader's knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point<const N: usize> {
    pub at: Timestamp,
    pub values: [u64; N],
}

#[derive(Debug, Clone, Default)]
pub struct Series<const N: usize>(VecDeque<Point<N>>);

impl<const N: usize> Series<N> {
    pub fn push(&mut self, point: Point<N>) {
        if self.0.back().is_some_and(|last| point.at <= last.at) {
            return;
        }
        self.0.push_back(point);
        self.thin(point.at);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn last(&self) -> Option<&Point<N>> {
        self.0.back()
    }

    pub fn points(&self) -> impl Iterator<Item = &Point<N>> {
        self.0.iter()
    }

    /// The two points that span about `window`, or as much of it as there is; None before the second point.
    pub fn span(&self, window: SignedDuration) -> Option<(&Point<N>, &Point<N>)> {
        let last = self.0.back()?;
        let wanted = last.at - window;
        let mut first = self.0.get(self.0.len().checked_sub(2)?)?;
        for point in self.0.iter().rev().skip(2) {
            // The one nearest to the beginning of the window, so that a late reading does not double it.
            if first.at <= wanted || apart(point.at, wanted) > apart(first.at, wanted) {
                break;
            }
            first = point;
        }
        Some((first, last))
    }

    fn thin(&mut self, now: Timestamp) {
        while self.0.front().is_some_and(|first| now.duration_since(first.at) > KEPT)
            || self.0.len() > MOST_POINTS
        {
            self.0.pop_front();
        }
        // The point that has just left the fine minute stays only if it is a step after the one before it.
        let leaving = self.0.partition_point(|point| now.duration_since(point.at) > FINE);
        if leaving >= 2 {
            let (before, point) = (self.0[leaving - 2], self.0[leaving - 1]);
            if point.at.duration_since(before.at) < STEP {
                self.0.remove(leaving - 1);
            }
        }
    }
}

fn apart(a: Timestamp, b: Timestamp) -> SignedDuration {
    a.duration_since(b).abs()
}

/// How much a counter grew per second between two points; None if it fell, for then it began anew.
pub fn per_second<const N: usize>((first, last): (&Point<N>, &Point<N>), counter: usize) -> Option<u64> {
    let grown = u128::from(last.values[counter].checked_sub(first.values[counter])?);
    let nanos =
        u128::try_from(last.at.duration_since(first.at).as_nanos()).ok().filter(|nanos| *nanos > 0)?;
    u64::try_from(grown * 1_000_000_000 / nanos).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000_000 + millis).unwrap()
    }

    fn rate(points: &[(i64, u64)], window: i64) -> Option<u64> {
        let mut series = Series::<1>::default();
        for (millis, value) in points {
            series.push(Point { at: at(*millis), values: [*value] });
        }
        let span = series.span(SignedDuration::from_secs(window))?;
        per_second(span, 0)
    }

    #[test]
    fn rates() {
        let check = |points: &[(i64, u64)], expected: Option<u64>| {
            assert_eq!(rate(points, 3), expected, "{points:?}");
        };
        check(&[(0, 0)], None);
        check(&[(0, 0), (1000, 500)], Some(500));
        check(&[(0, 0), (1000, 1), (2000, 1001), (3000, 2001), (4000, 3001)], Some(1000));
        // A reading that came late does not stretch the window to the one before it.
        check(&[(0, 0), (1000, 1), (2010, 1001), (3000, 2001), (5010, 4001)], Some(1000));
        check(&[(0, 9), (1000, 5)], None);
        // After a gap the last two are all there is.
        check(&[(0, 0), (60_000, 100), (61_000, 400)], Some(300));
    }

    #[test]
    fn an_hour_in_bounded_memory() {
        let mut series = Series::<1>::default();
        for second in 0..3 * 3600 {
            series.push(Point { at: at(second * 1000), values: [1] });
        }
        let points: Vec<&Point<1>> = series.points().collect();
        assert!(points.len() <= MOST_POINTS, "{}", points.len());
        let reach = points.last().unwrap().at.duration_since(points[0].at);
        assert!(reach >= SignedDuration::from_mins(58), "{reach:?}");
    }

    proptest! {
        /// Whatever comes, in whatever order, the points are in order and few.
        #[test]
        fn always_in_order_and_bounded(times in prop::collection::vec(0i64..5_000_000, 0..600)) {
            let mut series = Series::<1>::default();
            for millis in times {
                series.push(Point { at: at(millis), values: [0] });
            }
            let points: Vec<Timestamp> = series.points().map(|point| point.at).collect();
            prop_assert!(points.is_sorted());
            prop_assert!(points.len() <= MOST_POINTS);
        }
    }
}
