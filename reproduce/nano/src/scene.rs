//! Scenes: a background that changes, and shapes that come and go.

use rand::Rng;
use rand::seq::SliceRandom as _;

/// Width of the generated videos in pixels.
pub const WIDTH: usize = 192;
/// Height in pixels.
pub const HEIGHT: usize = 108;
/// Frames per second.
pub const FPS: usize = 8;

/// Names and RGB values of the colours of shapes.
pub const COLOURS: [(&str, [u8; 3]); 6] = [
    ("red", [220, 40, 40]),
    ("green", [40, 190, 70]),
    ("blue", [50, 80, 230]),
    ("yellow", [235, 220, 50]),
    ("white", [245, 245, 245]),
    ("purple", [160, 50, 190]),
];
/// Names of the shapes.
pub const SHAPES: [&str; 3] = ["circle", "square", "triangle"];
/// Backgrounds; none is close to a shape's colour.
const BACKGROUNDS: [[u8; 3]; 4] = [[30, 34, 40], [70, 60, 50], [40, 70, 72], [86, 84, 90]];

/// A shape that is there for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// First second.
    pub start: f64,
    /// Last second.
    pub end: f64,
    /// Index into the table of colours.
    pub colour: usize,
    /// Index into the table of shapes.
    pub shape: usize,
    /// Centre, in pixels.
    pub centre: (f64, f64),
}

impl Event {
    /// E.g. `red circle`.
    pub fn name(&self) -> String {
        format!("{} {}", COLOURS[self.colour].0, SHAPES[self.shape])
    }
}

/// One video to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Length in seconds.
    pub seconds: usize,
    /// Events by start; no two of the same colour and shape, none at the same time.
    pub events: Vec<Event>,
    background: usize,
}

impl Scene {
    /// A scene of one to two minutes with four to six events of two to four seconds.
    pub fn random(rng: &mut impl Rng) -> Self {
        let seconds = rng.random_range(60..=110);
        let count = rng.random_range(4..=6);
        let mut kinds: Vec<(usize, usize)> = (0..COLOURS.len())
            .flat_map(|colour| (0..SHAPES.len()).map(move |shape| (colour, shape)))
            .collect();
        kinds.shuffle(rng);
        // Each event has a stretch of the video for itself.
        let stretch = seconds as f64 / count as f64;
        let events = (0..count)
            .map(|number| {
                let length = rng.random_range(16..=32) as f64 / FPS as f64;
                let room = stretch - length - 1.0;
                let start =
                    number as f64 * stretch + (rng.random_range(0.0..room) * FPS as f64).round() / FPS as f64;
                let centre = (
                    rng.random_range(30.0..WIDTH as f64 - 30.0),
                    rng.random_range(30.0..HEIGHT as f64 - 30.0),
                );
                let (colour, shape) = kinds[number];
                Event { start, end: start + length, colour, shape, centre }
            })
            .collect();
        Self { seconds, events, background: rng.random_range(0..BACKGROUNDS.len()) }
    }

    /// Frames of the video.
    pub fn frames(&self) -> usize {
        self.seconds * FPS
    }

    /// Pixels of one frame, (height, width, 3).
    pub fn frame(&self, number: usize) -> Vec<u8> {
        let time = number as f64 / FPS as f64;
        // The background drifts and changes every twenty seconds.
        let base = BACKGROUNDS[(self.background + number / (20 * FPS)) % BACKGROUNDS.len()];
        let event = self.events.iter().find(|event| event.start <= time && time < event.end);
        let mut rgb = Vec::with_capacity(WIDTH * HEIGHT * 3);
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let drift = ((x + y + number) / 16 % 2 * 6) as u8;
                let colour = match event {
                    Some(event) if inside(event, x as f64, y as f64) => COLOURS[event.colour].1,
                    _ => base.map(|value| value + drift),
                };
                rgb.extend_from_slice(&colour);
            }
        }
        rgb
    }
}

/// Radius of the shapes in pixels.
const RADIUS: f64 = 22.0;

fn inside(event: &Event, x: f64, y: f64) -> bool {
    let (dx, dy) = (x - event.centre.0, y - event.centre.1);
    match event.shape {
        0 => dx * dx + dy * dy <= RADIUS * RADIUS,
        1 => dx.abs() <= RADIUS && dy.abs() <= RADIUS,
        // Apex up: as wide as it is far from the apex.
        _ => dy.abs() <= RADIUS && dx.abs() <= (dy + RADIUS) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    #[test]
    fn events_do_not_overlap_and_are_told_apart() {
        for seed in 0..50 {
            let scene = Scene::random(&mut StdRng::seed_from_u64(seed));
            assert!(scene.events.windows(2).all(|pair| pair[0].end < pair[1].start));
            assert!(scene.events.iter().all(|event| event.start >= 0.0 && event.end < scene.seconds as f64));
            let mut names: Vec<_> = scene.events.iter().map(Event::name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), scene.events.len());
        }
    }

    #[test]
    fn a_shape_is_seen_while_its_event_lasts() {
        let scene = Scene::random(&mut StdRng::seed_from_u64(7));
        let event = scene.events[0];
        let colour = COLOURS[event.colour].1;
        let shows =
            |time: f64| scene.frame((time * FPS as f64) as usize).chunks(3).any(|pixel| pixel == colour);
        assert!(shows(event.start + 0.5) && !shows(event.end + 0.5));
    }
}
