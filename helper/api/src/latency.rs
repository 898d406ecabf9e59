// SPDX-License-Identifier: GPL-3.0-or-later
//! A histogram of the time that measured requests took.

use serde::{Deserialize, Serialize};

/// Number of the measured requests whose times lie in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Bucket {
    /// Upper bound of the interval in microseconds; the bound itself belongs to the next bucket. The lower bound is the
    /// `below_us` of the bucket before. [`u64::MAX`]: no upper bound.
    pub below_us: u64,
    /// Number of requests.
    pub requests: u64,
}

/// The times from the arrival of requests to their completion. The module measures only some requests: the histogram
/// shows how the times are distributed, not how many requests there were.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Latency {
    /// The buckets by ascending time; empty if the kernel does not measure.
    pub buckets: Vec<Bucket>,
}

impl Latency {
    /// Number of measured requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, bucket| sum.saturating_add(bucket.requests))
    }

    /// The smallest upper bound of a bucket, in microseconds, below which at least this share of the requests lies
    /// (0.5: the median; 0.99: all but one in a hundred). [`u64::MAX`]: that bucket has no upper bound. `None`: there
    /// are no requests.
    #[must_use]
    pub fn below_us(&self, share: f64) -> Option<u64> {
        let all = self.requests();
        let wanted = (all as f64 * share.clamp(0.0, 1.0)).ceil().max(1.0);
        let mut sum = 0u64;
        self.buckets
            .iter()
            .find(|bucket| {
                sum = sum.saturating_add(bucket.requests);
                all > 0 && sum as f64 >= wanted
            })
            .map(|bucket| bucket.below_us)
    }

    /// The requests since `earlier`. If the cache was assembled anew since then, all requests.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |below_us| {
            earlier
                .buckets
                .iter()
                .find(|bucket| bucket.below_us == below_us)
                .map_or(0, |bucket| bucket.requests)
        };
        let added: Option<Vec<Bucket>> = self
            .buckets
            .iter()
            .map(|bucket| {
                Some(Bucket {
                    below_us: bucket.below_us,
                    requests: bucket.requests.checked_sub(before(bucket.below_us))?,
                })
            })
            .collect();
        added.map_or_else(|| self.clone(), |buckets| Self { buckets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(requests: &[(u64, u64)]) -> Latency {
        Latency {
            buckets: requests
                .iter()
                .map(|&(below_us, requests)| Bucket { below_us, requests })
                .collect(),
        }
    }

    #[test]
    fn a_share_of_the_requests_stays_below_a_bound() {
        let of = latency(&[(16, 0), (32, 50), (64, 49), (u64::MAX, 1)]);
        assert_eq!(of.requests(), 100);
        assert_eq!(of.below_us(0.0), Some(32));
        assert_eq!(of.below_us(0.5), Some(32));
        assert_eq!(of.below_us(0.51), Some(64));
        assert_eq!(of.below_us(0.99), Some(64));
        assert_eq!(of.below_us(1.0), Some(u64::MAX));
        assert_eq!(latency(&[(16, 0), (32, 0)]).below_us(0.5), None);
        assert_eq!(Latency::default().below_us(1.0), None);
    }

    #[test]
    fn what_was_added_since_is_told_unless_it_began_anew() {
        let earlier = latency(&[(16, 3), (32, 5)]);
        let later = latency(&[(16, 3), (32, 9)]);
        assert_eq!(later.since(&earlier), latency(&[(16, 0), (32, 4)]));
        assert_eq!(earlier.since(&later), earlier);
        assert_eq!(later.since(&Latency::default()), later);
    }
}
