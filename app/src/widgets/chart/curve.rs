// SPDX-License-Identifier: GPL-3.0-or-later
//! A smooth line through points that never leaves their range: a rate of 100 % is not drawn as 103 %.
//!
//! Cubic Hermite pieces with the slopes of Fritsch and Carlson (SIAM J. Numer. Anal. 17, 1980). Pure arithmetic.

/// Points of a smooth line through `points` (x grows), about `step` pixels apart.
#[must_use]
pub fn smooth(points: &[(f64, f64)], step: f64) -> Vec<(f64, f64)> {
    let Some((last, _)) = points.split_last() else {
        return Vec::new();
    };
    let slopes = slopes(points);
    let mut line = Vec::with_capacity(points.len() * 4);
    for (pair, slope) in points.windows(2).zip(slopes.windows(2)) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let width = x1 - x0;
        let pieces = (width / step.max(0.1)).ceil().clamp(1.0, 64.0) as u32;
        for piece in 0..pieces {
            let t = f64::from(piece) / f64::from(pieces);
            let (t2, t3) = (t * t, t * t * t);
            let y = (2.0 * t3 - 3.0 * t2 + 1.0) * y0
                + (t3 - 2.0 * t2 + t) * width * slope[0]
                + (3.0 * t2 - 2.0 * t3) * y1
                + (t3 - t2) * width * slope[1];
            line.push((x0 + t * width, y));
        }
    }
    line.push(*last);
    line
}

fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let secants: Vec<f64> = points
        .windows(2)
        .map(|pair| {
            let width = pair[1].0 - pair[0].0;
            if width > 0.0 {
                (pair[1].1 - pair[0].1) / width
            } else {
                0.0
            }
        })
        .collect();
    let mut slopes = vec![0.0; points.len()];
    for (place, pair) in secants.windows(2).enumerate() {
        // At a peak or a step the slope is level. Elsewhere the harmonic mean of both slopes keeps the line within the
        // range of both neighbours.
        if pair[0] * pair[1] > 0.0 {
            slopes[place + 1] = 2.0 * pair[0] * pair[1] / (pair[0] + pair[1]);
        }
    }
    if let (Some(first), Some(last), Some(end)) =
        (secants.first(), secants.last(), slopes.len().checked_sub(1))
    {
        slopes[0] = *first;
        slopes[end] = *last;
    }
    slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_through_its_points_and_not_beyond_them() {
        let points = [
            (0.0, 0.0),
            (10.0, 100.0),
            (20.0, 100.0),
            (30.0, 5.0),
            (40.0, 0.0),
            (41.0, 60.0),
        ];
        let line = smooth(&points, 1.0);
        for point in points {
            assert!(
                line.iter()
                    .any(|(x, y)| (x - point.0).abs() < 1e-9 && (y - point.1).abs() < 1e-9)
            );
        }
        assert!(line.iter().all(|(_, y)| (-1e-9..=100.0 + 1e-9).contains(y)));
        assert!(line.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn few_points_are_no_trouble() {
        assert_eq!(smooth(&[], 1.0), []);
        assert_eq!(smooth(&[(1.0, 2.0)], 1.0), [(1.0, 2.0)]);
        assert_eq!(
            smooth(&[(1.0, 2.0), (1.0, 4.0)], 1.0).last(),
            Some(&(1.0, 4.0))
        );
    }
}
