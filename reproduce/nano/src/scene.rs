//! Scenes: a background that changes, and shapes that come and go.

use rand::Rng;
use rand::seq::IndexedRandom as _;

/// Width of the generated videos in pixels.
pub(crate) const WIDTH: usize = 128;
/// Height in pixels.
pub(crate) const HEIGHT: usize = 128;
/// Frames per second.
pub(crate) const FPS: usize = 4;
/// Windows that a search goes through are this long, in seconds, counted from 0. No event spans two
/// of them: stated before any training, because joining two halves is not what the world is about.
pub(crate) const WINDOW: u32 = 32;

/// Names and RGB values of the colours of shapes.
pub(crate) const COLOURS: [(&str, [u8; 3]); 6] = [
    ("red", [220, 40, 40]),
    ("green", [40, 190, 70]),
    ("blue", [50, 80, 230]),
    ("yellow", [235, 220, 50]),
    ("white", [245, 245, 245]),
    ("purple", [170, 50, 200]),
];
/// Names of the shapes.
pub(crate) const SHAPES: [&str; 3] = ["circle", "square", "triangle"];
/// Kinds of event: a colour and a shape.
pub(crate) const KINDS: usize = COLOURS.len() * SHAPES.len();
/// Backgrounds; none is close to a shape's colour.
const BACKGROUNDS: [[u8; 3]; 4] = [[30, 34, 40], [70, 60, 50], [40, 70, 72], [86, 84, 90]];
/// Least seconds between two events: more than lies between two frames of a window or of a
/// 64-frame overview, so that each event is seen to end.
const GAP: f64 = 3.0;

/// Name of a kind of event, e.g. `red circle`.
pub(crate) fn kind_name(kind: usize) -> String {
    format!("{} {}", COLOURS[kind / SHAPES.len()].0, SHAPES[kind % SHAPES.len()])
}

/// Training and test hold different content: neither which kind follows which, nor in which second
/// a kind starts or is asked about, is ever the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Train,
    /// Videos of the evaluation splits.
    Test,
}

impl Side {
    /// Whether this side may show or ask about a kind at a second.
    pub(crate) fn has_moment(self, kind: usize, second: u64) -> bool {
        (kind as u64 + second).is_multiple_of(2) == (self == Self::Test)
    }

    /// Whether on this side `later` may come next after `earlier`: a quarter of all pairs is held out.
    pub(crate) fn has_pair(self, earlier: usize, later: usize) -> bool {
        let mixed = ((earlier * KINDS + later) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 61) < 2) == (self == Self::Test)
    }
}

/// A shape that is there for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// First second.
    pub start: f64,
    /// The second at which it is gone.
    pub end: f64,
    /// Which colour and shape, see `kind_name`.
    pub kind: usize,
    /// Centre, in pixels.
    pub centre: (f64, f64),
}

impl Event {
    /// E.g. `red circle`.
    pub fn name(&self) -> String {
        kind_name(self.kind)
    }

    /// E.g. `red`.
    pub fn colour(&self) -> &'static str {
        COLOURS[self.kind / SHAPES.len()].0
    }

    /// E.g. `circle`.
    pub fn shape(&self) -> &'static str {
        SHAPES[self.kind % SHAPES.len()]
    }

    /// Whether it is there.
    pub fn covers(&self, time: f64) -> bool {
        self.start <= time && time < self.end
    }

    /// Whole seconds at which it is there for a second before and after.
    pub fn moments(&self) -> std::ops::RangeInclusive<u64> {
        (self.start + 1.0).ceil() as u64..=(self.end - 1.0).floor() as u64
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
    /// A scene of 130 to 158 seconds with five to seven events of four to seven seconds: about one
    /// event in four has a frame of an 8-frame overview, each has one of a 64-frame overview.
    pub fn random(side: Side, rng: &mut impl Rng) -> Self {
        // Drawn once: a draw that does not fit is repeated, and must not make full scenes rarer.
        let (seconds, count) = (rng.random_range(130..=158), rng.random_range(5..=7));
        loop {
            let kinds = sequence(side, count, rng);
            if let (Some(kinds), Some(spans)) = (kinds, spans(seconds, count, rng)) {
                let event = |(kind, (start, end)): (usize, (f64, f64))| {
                    // A start of the other side's parity is moved by a second; `spans` leaves room.
                    let moved = if side.has_moment(kind, start as u64) { 0.0 } else { 1.0 };
                    let mut place = || rng.random_range(44.0..84.0);
                    Event { start: start + moved, end: end + moved, kind, centre: (place(), place()) }
                };
                let events = kinds.into_iter().zip(spans).map(event).collect();
                return Self { seconds, events, background: rng.random_range(0..BACKGROUNDS.len()) };
            }
        }
    }

    /// Frames of the video.
    pub fn frames(&self) -> usize {
        self.seconds * FPS
    }

    /// The event at a time.
    pub(crate) fn event_at(&self, time: f64) -> Option<&Event> {
        self.events.iter().find(|event| event.covers(time))
    }

    /// What frame `number` depends on: frames of the same look are equal.
    pub fn look(&self, number: usize) -> (usize, usize, Option<usize>) {
        let time = number as f64 / FPS as f64;
        // The background drifts every second and changes every twenty.
        let background = (self.background + number / (20 * FPS)) % BACKGROUNDS.len();
        (background, number / FPS % 16, self.events.iter().position(|event| event.covers(time)))
    }

    /// Pixels of one frame, (height, width, 3).
    pub fn frame(&self, number: usize) -> Vec<u8> {
        let (background, drift, event) = self.look(number);
        let event = event.map(|index| &self.events[index]);
        let base = BACKGROUNDS[background];
        let mut rgb = Vec::with_capacity(WIDTH * HEIGHT * 3);
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let colour = match event {
                    Some(event) if inside(event, x as f64, y as f64) => COLOURS[event.kind / SHAPES.len()].1,
                    _ => base.map(|value| value + ((x + y + 2 * drift) / 16 % 2 * 6) as u8),
                };
                rgb.extend_from_slice(&colour);
            }
        }
        rgb
    }
}

/// Kinds one after the other, each pair on this side; none where the draw runs into a dead end.
fn sequence(side: Side, count: usize, rng: &mut impl Rng) -> Option<Vec<usize>> {
    let mut kinds = vec![rng.random_range(0..KINDS)];
    while kinds.len() < count {
        let last = *kinds.last()?;
        let next: Vec<usize> =
            (0..KINDS).filter(|kind| !kinds.contains(kind) && side.has_pair(last, *kind)).collect();
        kinds.push(*next.choose(rng)?);
    }
    Some(kinds)
}

/// Start and end of events in order, or nothing when the draw does not fit.
fn spans(seconds: usize, count: usize, rng: &mut impl Rng) -> Option<Vec<(f64, f64)>> {
    let step = |value: usize| value as f64 / FPS as f64;
    let mut starts: Vec<f64> = (0..count).map(|_| step(rng.random_range(3 * FPS..seconds * FPS))).collect();
    starts.sort_by(f64::total_cmp);
    let spans: Vec<(f64, f64)> =
        starts.into_iter().map(|start| (start, start + step(rng.random_range(4 * FPS..=7 * FPS)))).collect();
    // One second of room for the start's parity.
    let apart = spans.windows(2).all(|pair| pair[0].1 + 1.0 + GAP <= pair[1].0);
    let window = f64::from(WINDOW);
    let whole = |&(start, end): &(f64, f64)| {
        let inside = start % window;
        inside >= 1.0 && inside + (end - start) + 1.0 <= window - 1.0 && end + 1.0 <= seconds as f64 - 3.0
    };
    (apart && spans.iter().all(whole)).then_some(spans)
}

/// Radius of the shapes in pixels: plain to see at half the size.
const RADIUS: f64 = 36.0;

fn inside(event: &Event, x: f64, y: f64) -> bool {
    let (dx, dy) = (x - event.centre.0, y - event.centre.1);
    match event.kind % SHAPES.len() {
        0 => dx * dx + dy * dy <= RADIUS * RADIUS,
        1 => dx.abs() <= RADIUS && dy.abs() <= RADIUS,
        // Apex up: as wide as it is far from the apex.
        _ => dy.abs() <= RADIUS && dx.abs() <= (dy + RADIUS) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world_rng;

    fn scenes(side: Side) -> impl Iterator<Item = Scene> {
        (0..200).map(move |seed| Scene::random(side, &mut world_rng(seed)))
    }

    #[test]
    fn events_are_apart_and_inside_one_window() {
        for scene in scenes(Side::Train).chain(scenes(Side::Test)) {
            assert!((5..=7).contains(&scene.events.len()));
            assert!(scene.events.windows(2).all(|pair| pair[0].end + GAP <= pair[1].start));
            for event in &scene.events {
                assert!(event.start >= 3.0 && event.end <= scene.seconds as f64 - 3.0);
                assert_eq!((event.start / 32.0) as u32, (event.end / 32.0) as u32);
                assert!(event.moments().count() >= 2);
            }
            let mut kinds: Vec<_> = scene.events.iter().map(|event| event.kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            assert_eq!(kinds.len(), scene.events.len());
        }
    }

    #[test]
    fn a_shape_is_seen_while_its_event_lasts() {
        let scene = Scene::random(Side::Train, &mut world_rng(7));
        let event = scene.events[0];
        let colour = COLOURS[event.kind / SHAPES.len()].1;
        let shows =
            |time: f64| scene.frame((time * FPS as f64) as usize).chunks(3).any(|pixel| pixel == colour);
        assert!(shows(event.start) && !shows(event.start - 0.25) && !shows(event.end));
    }

    #[test]
    fn no_pair_and_no_start_is_in_training_and_test() {
        for scene in scenes(Side::Test) {
            for pair in scene.events.windows(2) {
                assert!(!Side::Train.has_pair(pair[0].kind, pair[1].kind));
            }
            assert!(scene.events.iter().all(|event| !Side::Train.has_moment(event.kind, event.start as u64)));
        }
    }
}
