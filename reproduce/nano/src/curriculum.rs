//! Short conversations for an untrained model: an endless stream made in memory, without video files, with the texts of
//! the evaluation. All content is from the training side of the world.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use paravt_suite::frames::JPEG_QUALITY;
use paravt_suite::media::{Frame, VideoRequest, encode_jpeg, frame_indices};
use paravt_suite::message::{FrameOrigin, Image, Message, Part, Role};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{Protocol, render};
use paravt_suite::sample::Sample;
use rand::Rng as _;
use rand::seq::{IndexedRandom as _, SliceRandom as _};

use crate::policy::{self, Sighting};
use crate::questions::{Question, choice, grounding, order, perception};
use crate::samples::{Style, sample};
use crate::scene::{FPS, HEIGHT, KINDS, Scene, Side, WIDTH, kind_name};
use crate::traces::{CROP_FRAMES, Case, Dispatch, Piece, Turn, seen_in};
use crate::training::window;
use crate::{WorldError, WorldRng, world_rng};

/// Skill that a row trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skill {
    /// The name of what one frame shows.
    Name,
    /// The list of what the frames of a window show.
    List,
    Letters,
    /// The times of names in a list.
    Times,
    /// The letter of a name given in the question.
    Bind,
    /// The next event, or its time, from lists given in the question.
    Recall,
    /// Which windows a question needs.
    Call,
    /// All of a conversation with tool calls, without the overview's frames.
    Whole,
}

impl Skill {
    /// All skills, in the order in which they can be learned.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::List,
        Self::Letters,
        Self::Times,
        Self::Bind,
        Self::Recall,
        Self::Call,
        Self::Whole,
    ];

    /// Its name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::List => "list",
            Self::Letters => "letters",
            Self::Times => "times",
            Self::Bind => "bind",
            Self::Recall => "recall",
            Self::Call => "call",
            Self::Whole => "whole",
        }
    }
}

/// One conversation; every assistant message is to be learned.
#[derive(Debug, Clone)]
pub struct Row {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Skill that it trains, see [`Skill`].
    pub kind: &'static str,
}

/// The stream.
pub struct Curriculum {
    rng: WorldRng,
    protocol: Protocol,
    drawn: usize,
}

/// Rows of the first mixture alone: by then names are found.
const ALONE: usize = 60_000;
/// Rows after these until the mixture is the final one.
const RAMP: usize = 90_000;
/// Shares of [`Skill::ALL`] at the start and after the ramp.
/// To find what belongs to a name is learned slowest, and its rows are cheap.
const SHARES: [[f64; 8]; 2] =
    [[0.15, 0.05, 0.4, 0.4, 0.0, 0.0, 0.0, 0.0], [0.04, 0.22, 0.08, 0.1, 0.18, 0.22, 0.03, 0.13]];

impl Curriculum {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: world_rng(seed ^ 0x6375_7272), protocol: crate::protocol(), drawn: 0 }
    }

    /// Row `number` of the stream of a seed, whatever was drawn before it.
    ///
    /// # Errors
    /// As [`row`](Self::row).
    pub fn at(seed: u64, number: usize) -> Result<Row, WorldError> {
        let place = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { drawn: number, ..Self::new(seed.wrapping_add(place)) }.next()
    }

    /// The next row: names and letters first, whole conversations later.
    ///
    /// # Errors
    /// As [`row`](Self::row).
    #[expect(clippy::should_implement_trait, reason = "the stream has no end, and rows can fail")]
    pub fn next(&mut self) -> Result<Row, WorldError> {
        let done = (self.drawn.saturating_sub(ALONE) as f64 / RAMP as f64).min(1.0);
        self.drawn += 1;
        let shares: [f64; 8] = std::array::from_fn(|skill| {
            let [first, last] = [SHARES[0][skill], SHARES[1][skill]];
            first + (last - first) * done
        });
        let mut point = self.rng.random_range(0.0..1.0);
        let skill = Skill::ALL.into_iter().zip(shares).find(|(_, share)| {
            point -= share;
            point < 0.0
        });
        self.row(skill.map_or(Skill::List, |(skill, _)| skill))
    }

    /// A row that trains a skill.
    ///
    /// # Errors
    /// A text or a frame that cannot be made: a bug.
    pub fn row(&mut self, skill: Skill) -> Result<Row, WorldError> {
        let scene = Scene::random(Side::Train, &mut self.rng);
        let messages = match skill {
            Skill::Name => self.name(&scene),
            Skill::List => self.list(&scene),
            Skill::Letters => self.letters(),
            Skill::Times => Ok(self.times(&scene)),
            Skill::Bind => self.bind(&scene),
            Skill::Recall => self.recall(&scene),
            Skill::Call => self.whole(&scene).map(|mut messages| {
                messages.truncate(3);
                messages
            }),
            Skill::Whole => self.whole(&scene),
        }?;
        Ok(Row { messages, kind: skill.as_str() })
    }

    fn name(&mut self, scene: &Scene) -> Result<Vec<Message>, WorldError> {
        let frame = if self.rng.random_bool(0.15) {
            self.rng.random_range(0..scene.frames())
        } else {
            let event = scene.events.choose(&mut self.rng).unwrap_or(&scene.events[0]);
            self.rng.random_range((event.start * FPS as f64) as usize..(event.end * FPS as f64) as usize)
        };
        let second = (frame / FPS) as u64;
        self.describe(scene, &(second..second + 1), &[frame])
    }

    fn list(&mut self, scene: &Scene) -> Result<Vec<Message>, WorldError> {
        let window = window(scene, &mut self.rng);
        let request = VideoRequest::crop(window.start as f64, window.end as f64, CROP_FRAMES);
        let indices = frame_indices(&request, scene.frames(), FPS as f64).map_err(WorldError::Frames)?;
        self.describe(scene, &window, &indices)
    }

    fn describe(
        &mut self,
        scene: &Scene,
        window: &Range<u64>,
        indices: &[usize],
    ) -> Result<Vec<Message>, WorldError> {
        let images = indices.iter().map(|index| image(scene, *index)).collect::<Result<Vec<_>, _>>()?;
        let mut parts = render::frame_parts(&self.protocol, &images)?;
        let (question, style) = (grounding(scene.events[0]), Style::Plain);
        let (start, end) = (window.start as f64, window.end as f64);
        let sample = sample_of(&question, style);
        parts.push(Part::Text(render::subagent_prompt(&self.protocol, &sample, start, end, images.len())?));
        let list = policy::list(&policy::sightings(scene, &policy::times(indices)));
        Ok(vec![Message::parts(Role::User, parts), Message::text(Role::Assistant, list)])
    }

    /// Options with their letters, then names to say again with their letters: many answers in a short
    /// row, and nothing to guess. Fewer options are easier, and come as often.
    fn letters(&mut self) -> Result<Vec<Message>, WorldError> {
        let mut names: Vec<String> = (0..KINDS).map(kind_name).collect();
        names.shuffle(&mut self.rng);
        names.truncate(self.rng.random_range(2..=5));
        let mut options: Vec<(char, &String)> = ('A'..).zip(&names).collect();
        let lines = options.iter().map(|(letter, name)| {
            let (letter, name) = (letter.to_string(), name.as_str());
            self.protocol.option_line.render(&[("letter", letter.as_str()), ("option", name)])
        });
        let lines =
            lines.collect::<Result<Vec<_>, _>>().map_err(|error| WorldError::Frames(error.to_string()))?;
        options.shuffle(&mut self.rng);
        let asked: Vec<String> = options.iter().map(|(_, name)| format!(" {name}")).collect();
        let text = format!("{}\n{}", lines.join("\n"), asked.join(";"));
        let said: Vec<String> =
            options.into_iter().map(|(letter, option)| policy::lettered(option, letter)).collect();
        Ok(vec![Message::text(Role::User, text), Message::text(Role::Assistant, said.join("\n"))])
    }

    /// A list, then names of it to say again with their times.
    fn times(&mut self, scene: &Scene) -> Vec<Message> {
        let mut seen: Vec<Sighting> = scene
            .events
            .iter()
            .map(|event| Sighting { event: *event, from: event.start as u64, to: event.end as u64 })
            .collect();
        seen.truncate(self.rng.random_range(2..=seen.len()));
        let list = policy::list(&seen);
        seen.shuffle(&mut self.rng);
        let asked: Vec<String> = seen.iter().map(|sighting| format!(" {}", sighting.event.name())).collect();
        let text = format!("{list}\n{}", asked.join(";"));
        vec![Message::text(Role::User, text), Message::text(Role::Assistant, policy::list(&seen))]
    }

    fn bind(&mut self, scene: &Scene) -> Result<Vec<Message>, WorldError> {
        let number = if self.rng.random_bool(0.3) { 2 } else { 0 };
        let question = choice(scene, Side::Train, number, &mut self.rng);
        self.told(scene, &question)
    }

    fn recall(&mut self, scene: &Scene) -> Result<Vec<Message>, WorldError> {
        let question = self.search(scene);
        self.told(scene, &question)
    }

    fn search(&mut self, scene: &Scene) -> Question {
        if self.rng.random_bool(0.6) {
            return order(scene, &mut self.rng);
        }
        grounding(*scene.events.choose(&mut self.rng).unwrap_or(&scene.events[0]))
    }

    /// A question, what the windows show, and the answer: no system text and no calls between.
    fn told(&mut self, scene: &Scene, question: &Question) -> Result<Vec<Message>, WorldError> {
        let style = Style::random(&question.ask, &mut self.rng);
        let mut messages = vec![Message::text(Role::User, self.text(question, style)?)];
        let mut seen = Vec::new();
        for window in policy::windows(&question.ask, scene.seconds) {
            let found = seen_in(scene, &window)?;
            let (start, end) = (window.start as f64, window.end as f64);
            let text = render::subagent_response(&self.protocol, start, end, &policy::list(&found))?;
            messages.push(Message::text(Role::User, text));
            seen.extend(found);
        }
        let evidence = policy::evidence(&question.ask, &seen);
        messages.push(Message::text(Role::Assistant, policy::conclude(question, style, &evidence)));
        Ok(messages)
    }

    /// A question as the agent puts it.
    fn text(&self, question: &Question, style: Style) -> Result<String, WorldError> {
        let (switches, mode) = (Profile::Paper.switches(), &self.protocol.default_mode);
        Ok(render::user_text(&self.protocol, &sample_of(question, style), mode, &switches, "nano.mp4", None)?)
    }

    fn whole(&mut self, scene: &Scene) -> Result<Vec<Message>, WorldError> {
        let question = match self.rng.random_range(0..10) {
            0..3 => perception(scene, Side::Train, &mut self.rng),
            3 => choice(scene, Side::Train, 2, &mut self.rng),
            _ => self.search(scene),
        };
        let style = Style::random(&question.ask, &mut self.rng);
        let sample = sample_of(&question, style);
        let case = Case { scene, question: &question, style, sample: &sample, nframes: 4 };
        let turns = case.with_tool(&self.protocol, Dispatch::Parallel)?.unwrap_or_default();
        Ok(turns.into_iter().map(without_frames).collect())
    }
}

fn sample_of(question: &Question, style: Style) -> Sample {
    sample(question, style, "nano", Path::new("nano.mp4"))
}

fn without_frames(turn: Turn) -> Message {
    let text = turn.parts.into_iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        Piece::Overview(_) | Piece::Crop(..) => None,
    });
    Message::text(turn.role, text.collect::<String>())
}

/// A frame as a decoder would hand it over, but for the codec's own losses.
fn image(scene: &Scene, index: usize) -> Result<Arc<Image>, WorldError> {
    let (width, height) = (WIDTH as u32, HEIGHT as u32);
    let time = index as f64 / FPS as f64;
    let rgb = scene.frame(index);
    let frame = Frame { index, time_us: (time * 1e6) as i64, width, height, rgb };
    let jpeg = encode_jpeg(&frame, JPEG_QUALITY).map_err(|error| WorldError::Frames(error.to_string()))?;
    Ok(Arc::new(Image::new("image/jpeg", jpeg, width, height, Some(FrameOrigin { index, time }))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use paravt_suite::record::RecordedMessage;

    #[test]
    fn every_skill_ends_with_an_answer_and_follows_from_the_seed() {
        for skill in Skill::ALL {
            let mut streams = [Curriculum::new(3), Curriculum::new(3)];
            for _ in 0..20 {
                let [one, other] = streams.each_mut().map(|stream| stream.row(skill).unwrap());
                assert_eq!(one.messages.last().unwrap().role, Role::Assistant, "{}", one.kind);
                let recorded = |row: &Row| row.messages.iter().map(RecordedMessage::from).collect::<Vec<_>>();
                assert_eq!(recorded(&one), recorded(&other));
            }
        }
    }

    #[test]
    fn whole_conversations_come_last() {
        let mut stream = Curriculum::new(1);
        let kinds: Vec<_> = (0..200).map(|_| stream.next().unwrap().kind).collect();
        assert!(kinds.contains(&"name") && kinds.contains(&"times") && !kinds.contains(&"whole"));
    }
}
