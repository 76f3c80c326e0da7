//! Drawing: threads that draw Bezier curves into memory, then sleep 1 ms.
//!
//! Heubaum ran four windows of four threads. Each thread drew curves with a system call and slept 1
//! ms. Here the picture is a plain buffer, so the load does not need a display. The rhythm is the
//! same: short bursts of computing and a thousand timer sleeps per second in every thread.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

pub(super) const THREADS: u32 = 16;

const WIDTH: usize = 320;
const HEIGHT: usize = 240;
const CURVES: usize = 16;
/// Number of points per curve.
const POINTS: u16 = 512;
const SLEEP: Duration = Duration::from_millis(1);

/// Draws until it `ends`. Returns the number of frames.
pub(super) fn run(index: u32, ends: &dyn Fn() -> bool) -> u64 {
    let mut picture = vec![0_u32; WIDTH * HEIGHT];
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ (u64::from(index) << 32));
    let mut frames = 0;
    while !ends() {
        picture.fill(0);
        for _ in 0..CURVES {
            let curve = [(); 4].map(|()| (dice.below(WIDTH), dice.below(HEIGHT)));
            draw(&mut picture, curve, frames_colour(frames));
        }
        black_box(&picture);
        frames += 1;
        thread::sleep(SLEEP);
    }
    frames
}

/// Returns a colour that changes with each frame and is never the background's.
const fn frames_colour(frames: u64) -> u32 {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "only the lowest bits change the colour"
    )]
    let low = frames as u32;
    low | 0xff00_0000
}

/// Sets the points of the cubic Bezier curve with these control points.
fn draw(picture: &mut [u32], curve: [(f32, f32); 4], colour: u32) {
    for step in 0..POINTS {
        let t = f32::from(step) / f32::from(POINTS);
        let u = 1.0 - t;
        let weights = [u * u * u, 3.0 * u * u * t, 3.0 * u * t * t, t * t * t];
        let (x, y) = curve
            .iter()
            .zip(weights)
            .fold((0.0, 0.0), |(x, y), (point, weight)| {
                (x + weight * point.0, y + weight * point.1)
            });
        // The curve stays inside the hull of its control points.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the picture"
        )]
        let position = y as usize * WIDTH + x as usize;
        if let Some(pixel) = picture.get_mut(position) {
            *pixel = colour;
        }
    }
}

/// Xorshift (Marsaglia 2003): the same curves in every run.
struct Dice(u64);

impl Dice {
    /// Returns a number from 0 to below `limit`.
    fn below(&mut self, limit: usize) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_starts_at_its_first_point_and_marks_the_picture() {
        let mut picture = vec![0; WIDTH * HEIGHT];

        draw(
            &mut picture,
            [(5.0, 7.0), (300.0, 7.0), (5.0, 200.0), (300.0, 200.0)],
            9,
        );

        assert_eq!(picture[7 * WIDTH + 5], 9);
        assert!(picture.iter().filter(|&&pixel| pixel == 9).count() > 100);
    }
}
