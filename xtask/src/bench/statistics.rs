//! What several runs say together: their middle, their spread, and whether two lots of them differ.

/// Runs of one thing, summed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) count: usize,
}

impl Summary {
    /// `None` of nothing.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&least, &most) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Summary {
            median,
            least,
            most,
            count: values.len(),
        })
    }
}

/// Up to this chance two lots count as different: what three runs against three can reach, and a little room for a tenth
/// that was added up.
pub(super) const LIKELY: f64 = 0.1 + 1e-9;

/// How likely two lots this far apart are when both come from the same thing: the two-sided test of Mann and Whitney,
/// counted out, which asks nothing of how times are distributed. 1 where either lot is empty.
///
/// Three runs against three can say 0.1 at best, five against five 0.008.
pub(super) fn same(one: &[f64], other: &[f64]) -> f64 {
    if one.is_empty() || other.is_empty() {
        return 1.0;
    }
    // Twice the number of pairs in which the first is the larger; a tie counts half.
    let twice: usize = one
        .iter()
        .flat_map(|a| other.iter().map(move |b| a.total_cmp(b)))
        .map(|order| match order {
            std::cmp::Ordering::Greater => 2,
            std::cmp::Ordering::Equal => 1,
            std::cmp::Ordering::Less => 0,
        })
        .sum();
    let pairs = one.len() * other.len();
    // Rounded towards the middle, which never makes two lots look more different than they are.
    let smaller = twice.min(2 * pairs - twice).div_ceil(2);
    let ways = arrangements(one.len(), other.len());
    let extreme: f64 = ways.iter().take(smaller + 1).sum();
    (2.0 * extreme / ways.iter().sum::<f64>()).min(1.0)
}

/// Of all orders of `one` and `other` values, how many have 0, 1, 2, ... pairs with the first lot's the larger.
fn arrangements(one: usize, other: usize) -> Vec<f64> {
    // The recurrence over the largest value: it is either of the first lot, and larger than all others, or of the second.
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; other + 1];
    for a in 1..=one {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for b in 1..=other {
            let mut ways = vec![0.0; a * b + 1];
            for (count, way) in row[b].iter().enumerate() {
                ways[count + b] += way;
            }
            for (count, way) in next[b - 1].iter().enumerate() {
                ways[count] += way;
            }
            next.push(ways);
        }
        row = next;
    }
    row.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_lies_between_the_middle_two() {
        let summary = Summary::of([4.0, 1.0, 9.0, 2.0]).expect("four values");
        assert_eq!(
            (summary.median, summary.least, summary.most, summary.count),
            (3.0, 1.0, 9.0, 4)
        );
        assert_eq!(Summary::of([7.0]).map(|one| one.median), Some(7.0));
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn arrangements_are_counted_out() {
        // Two against two: six orders, with 0, 1, 2, 2, 3 and 4 pairs.
        assert_eq!(arrangements(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(arrangements(5, 5).iter().sum::<f64>(), 252.0);
    }

    #[test]
    fn lots_apart_differ_and_lots_mixed_do_not() {
        let apart = same(&[1.0, 1.1, 1.2, 1.3, 1.4], &[2.0, 2.1, 2.2, 2.3, 2.4]);
        assert!((apart - 2.0 / 252.0).abs() < 1e-12, "{apart}");
        assert!((same(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - 0.1).abs() < 1e-12);
        assert!(same(&[1.0, 3.0, 5.0, 7.0, 9.0], &[2.0, 4.0, 6.0, 8.0, 10.0]) > 0.5);
        assert_eq!(same(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(same(&[], &[1.0]), 1.0);
    }
}
