// SPDX-License-Identifier: GPL-3.0-or-later
//! The places of the parts of the chart. Pure arithmetic.

/// The rectangle of the plot inside the widget, in pixels from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Lower edge.
    pub bottom: f64,
}

impl Frame {
    /// The plot of a widget of this size, with room for labels of this size to the left and below.
    #[must_use]
    pub fn inside(width: f64, height: f64, label_width: f64, label_height: f64) -> Self {
        let gap = 8.0;
        let left = label_width + gap;
        let top = (label_height / 2.0).ceil();
        Self {
            left,
            top,
            right: (width - 1.0).max(left + 1.0),
            bottom: (height - label_height - gap).max(top + 1.0),
        }
    }

    /// Pixel of a share between 0 (below) and 1 (above).
    #[must_use]
    pub fn y(&self, share: f64) -> f64 {
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }

    /// Pixel of a moment, with `now_us` at the right edge and a chart of `span_us`.
    #[must_use]
    pub fn x(&self, time_us: u64, now_us: u64, span_us: u64) -> f64 {
        let age = now_us.saturating_sub(time_us).min(span_us) as f64;
        self.right - age / span_us.max(1) as f64 * (self.right - self.left)
    }
}

/// Minutes before now that get a mark, the oldest first, so far apart that labels of this width do not touch.
#[must_use]
pub fn minute_marks(span_us: u64, plot_width: f64, label_width: f64) -> Vec<u64> {
    let minutes = span_us / 60_000_000;
    let fits = |step: u64| plot_width * step as f64 / minutes.max(1) as f64 > label_width + 12.0;
    let step = (1..=minutes.max(1))
        .find(|step| fits(*step))
        .unwrap_or(minutes.max(1));
    (0..=minutes)
        .rev()
        .filter(|minute| minute.is_multiple_of(step))
        .collect()
}

/// Shares that get a line and a label, from below; fewer if the plot is low.
#[must_use]
pub fn share_marks(plot_height: f64, label_height: f64) -> &'static [f64] {
    if plot_height > label_height * 7.0 {
        &[0.0, 0.25, 0.5, 0.75, 1.0]
    } else {
        &[0.0, 0.5, 1.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000;

    #[test]
    fn now_is_at_the_right_and_the_oldest_at_the_left() {
        let frame = Frame {
            left: 40.0,
            top: 5.0,
            right: 340.0,
            bottom: 105.0,
        };
        assert_eq!(frame.x(5 * MINUTE, 5 * MINUTE, 5 * MINUTE), 340.0);
        assert_eq!(frame.x(0, 5 * MINUTE, 5 * MINUTE), 40.0);
        assert_eq!(frame.x(0, 50 * MINUTE, 5 * MINUTE), 40.0);
        assert_eq!(
            (frame.y(0.0), frame.y(1.0), frame.y(7.0)),
            (105.0, 5.0, 5.0)
        );
    }

    #[test]
    fn a_plot_is_never_inside_out() {
        let frame = Frame::inside(3.0, 3.0, 40.0, 20.0);
        assert!(frame.right > frame.left && frame.bottom > frame.top);
    }

    #[test]
    fn labels_do_not_touch() {
        assert_eq!(minute_marks(5 * MINUTE, 600.0, 50.0), [5, 4, 3, 2, 1, 0]);
        assert_eq!(minute_marks(5 * MINUTE, 250.0, 50.0), [4, 2, 0]);
        assert_eq!(minute_marks(5 * MINUTE, 100.0, 50.0), [4, 0]);
        assert_eq!(minute_marks(4 * MINUTE, 250.0, 80.0), [4, 2, 0]);
        assert_eq!(minute_marks(0, 250.0, 80.0), [0]);
    }

    #[test]
    fn a_low_plot_has_fewer_lines() {
        assert_eq!(share_marks(200.0, 14.0).len(), 5);
        assert_eq!(share_marks(60.0, 14.0).len(), 3);
    }
}
