// SPDX-License-Identifier: GPL-3.0-or-later
//! The places of the parts of the chart. Pure arithmetic.

/// The rectangle of a plot inside the widget, in pixels from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// The left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Lower edge.
    pub bottom: f64,
}

/// The time that a chart shows, in seconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The left edge.
    pub start: f64,
    /// The right edge.
    pub end: f64,
}

impl Frame {
    /// Pixel of an amount between 0 (below) and `top` (above).
    #[must_use]
    pub fn y(&self, amount: u64, top: u64) -> f64 {
        let share = amount as f64 / top.max(1) as f64;
        self.bottom - share.min(1.0) * (self.bottom - self.top)
    }

    /// Pixel of a moment.
    #[must_use]
    pub fn x(&self, moment: f64, times: Times) -> f64 {
        let share = (moment - times.start) / (times.end - times.start).max(1e-3);
        self.left + share.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// The moment at a pixel.
    #[must_use]
    pub fn moment(&self, x: f64, times: Times) -> f64 {
        let share = (x - self.left) / (self.right - self.left).max(1.0);
        times.start + share.clamp(0.0, 1.0) * (times.end - times.start)
    }
}

/// Marks of the time axis, the oldest first, from `units` to 0 before now, so far apart that labels of this width do not
/// touch.
#[must_use]
pub fn time_marks(units: u64, plot_width: f64, label_width: f64) -> Vec<u64> {
    let fits = |step: u64| plot_width * step as f64 / units.max(1) as f64 > label_width + 12.0;
    let step = (1..=units.max(1))
        .find(|step| fits(*step))
        .unwrap_or(units.max(1));
    (0..=units)
        .rev()
        .filter(|unit| unit.is_multiple_of(step))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_at_the_right_and_the_oldest_at_the_left() {
        let frame = Frame {
            left: 40.0,
            top: 5.0,
            right: 340.0,
            bottom: 105.0,
        };
        let times = Times {
            start: 1000.0,
            end: 1300.0,
        };
        assert_eq!(
            (frame.x(1300.0, times), frame.x(1000.0, times)),
            (340.0, 40.0)
        );
        assert_eq!(frame.x(0.0, times), 40.0);
        assert_eq!(frame.moment(190.0, times), 1150.0);
        assert_eq!(frame.moment(-5.0, times), 1000.0);
        assert_eq!(
            (frame.y(0, 10), frame.y(10, 10), frame.y(70, 10)),
            (105.0, 5.0, 5.0)
        );
    }

    #[test]
    fn labels_do_not_touch() {
        assert_eq!(time_marks(5, 600.0, 50.0), [5, 4, 3, 2, 1, 0]);
        assert_eq!(time_marks(5, 250.0, 50.0), [4, 2, 0]);
        assert_eq!(time_marks(5, 100.0, 50.0), [4, 0]);
        assert_eq!(time_marks(4, 250.0, 80.0), [4, 2, 0]);
        assert_eq!(time_marks(0, 250.0, 80.0), [0]);
    }
}
