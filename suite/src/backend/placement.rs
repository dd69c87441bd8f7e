//! Which of several equal servers or engines a request goes to.
//!
//! Every turn of a conversation and every question about a video begins with the same frames, tens of thousands of
//! tokens that a server has in its prefix cache only if it has read them before. So a conversation keeps its server, a
//! new conversation about a video goes to one that has seen the video as long as that one is not much busier than the
//! others, and a video that nobody has seen goes to the least busy one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Request;
use crate::message::{Content, Part};

/// A server that has seen the video gets its next conversation up to this multiple of the mean number of open requests.
const MOST_OPEN: f64 = 1.5;
/// A server with fewer open requests is not busy: it decodes as many in one pass.
const BUSY: usize = 8;

/// The requests that each place (a server, an engine) has open and the videos it has seen.
#[derive(Debug)]
pub struct Placement(Mutex<State>);

#[derive(Debug)]
struct State {
    open: Vec<usize>,
    /// Conversations that each place has had.
    had: Vec<usize>,
    /// Place of each conversation by [`Keys::conversation`].
    conversations: HashMap<u64, usize>,
    /// Places that have seen a video, by [`Keys::video`].
    seen_by: HashMap<u64, Vec<usize>>,
}

/// An open request; it ends when this is dropped.
#[derive(Debug)]
pub struct Seat<'a> {
    placement: &'a Placement,
    place: usize,
}

impl Seat<'_> {
    /// Index of the place.
    pub fn place(&self) -> usize {
        self.place
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.placement.state().open[self.place] -= 1;
    }
}

impl Placement {
    /// Over this many places, at least one.
    pub fn new(places: usize) -> Self {
        let none = vec![0; places.max(1)];
        let (conversations, seen_by) = (HashMap::new(), HashMap::new());
        Self(Mutex::new(State { open: none.clone(), had: none, conversations, seen_by }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a request at one of the places of the lowest rank: what a place of a higher rank would get, they take over.
    pub fn seat<R: Ord>(&self, request: &Request, rank: impl Fn(usize) -> R) -> Seat<'_> {
        let keys = Keys::of(request);
        let mut state = self.state();
        let ranks: Vec<R> = (0..state.open.len()).map(rank).collect();
        let best = ranks.iter().min();
        let usable: Vec<usize> = (0..ranks.len()).filter(|&place| Some(&ranks[place]) == best).collect();
        let place = state.choose(&keys, &usable);
        state.open[place] += 1;
        if state.conversations.insert(keys.conversation, place) != Some(place) {
            state.had[place] += 1;
        }
        if let Some(video) = keys.video {
            let seen_by = state.seen_by.entry(video).or_default();
            if !seen_by.contains(&place) {
                seen_by.push(place);
            }
        }
        Seat { placement: self, place }
    }
}

impl State {
    fn choose(&self, keys: &Keys, usable: &[usize]) -> usize {
        if let Some(place) = self.conversations.get(&keys.conversation).filter(|place| usable.contains(place))
        {
            return *place;
        }
        let open: usize = usable.iter().map(|&place| self.open[place]).sum();
        let most = BUSY.max((MOST_OPEN * (open + 1) as f64 / usable.len() as f64).ceil() as usize);
        let seen_by = keys.video.and_then(|video| self.seen_by.get(&video)).into_iter().flatten().copied();
        let has_room = seen_by.filter(|place| usable.contains(place) && self.open[*place] < most);
        let least = |places: &mut dyn Iterator<Item = usize>| {
            places.min_by_key(|&place| (self.open[place], self.had[place]))
        };
        least(&mut has_room.into_iter()).or_else(|| least(&mut usable.iter().copied())).unwrap_or_default()
    }
}

/// What a request is placed by.
struct Keys {
    /// The repetition of a sample and the pictures that it begins with: a sub-agent, which begins with a crop, is a
    /// conversation of its own.
    conversation: u64,
    /// The pictures that the request begins with; `None` without any.
    video: Option<u64>,
}

impl Keys {
    fn of(request: &Request) -> Self {
        let video = request.messages.iter().find_map(|message| match &message.content {
            Content::Parts(parts) => pictures(parts),
            Content::Text(_) => None,
        });
        let conversation = hash(&(&request.id.sample, request.id.epoch, video));
        Self { conversation, video }
    }
}

/// A hash of a video or of the middle one of several pictures: many videos begin and end in black.
fn pictures(parts: &[Part]) -> Option<u64> {
    let mut images = Vec::new();
    for part in parts {
        match part {
            Part::Text(_) => {}
            Part::Video(video) => return Some(hash(&video.path)),
            Part::Image(image) => images.push(image),
            Part::Frames(frames) => images.extend(&frames.images),
        }
    }
    images.get(images.len() / 2).map(|image| hash(&image.bytes))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::backend::{CallId, Generation};
    use crate::message::{Message, Role, Spread, VideoPart};

    fn about(sample: &str, video: &str) -> Request {
        let video = VideoPart { path: PathBuf::from(video), nframes: None, spread: Spread::default() };
        let message = Message::parts(Role::User, vec![Part::Video(video)]);
        Request::new(CallId::new(sample, "turn0"), vec![message], Generation::greedy(1))
    }

    /// Runs two turns of every question, `in_flight` at once, and returns the places that the first and second turns of
    /// each video met. A turn lasts 1 to 3 times `turn_ms`, the pause for the crops 1 to 3 s.
    fn simulate(
        places: usize,
        in_flight: usize,
        turn_ms: u64,
        videos: usize,
        questions: usize,
    ) -> Vec<Vec<[usize; 2]>> {
        let placement = Placement::new(places);
        let requests: Vec<Request> = (0..videos * questions)
            .map(|id| about(&id.to_string(), &format!("{}.mp4", id / questions)))
            .collect();
        let mut met = vec![Vec::new(); videos];
        // What happens next, by its time in milliseconds: a turn's end with its open request, or a turn's start.
        let mut events: BTreeMap<(u64, usize), (usize, Option<Seat<'_>>)> = BTreeMap::new();
        let mut waiting = in_flight..requests.len();
        for id in 0..in_flight {
            events.insert((0, id), (0, None));
        }
        while let Some(((now, id), (turn, seat))) = events.pop_first() {
            let luck = hash(&(id, turn, "luck"));
            let Some(seat) = seat else {
                let seat = placement.seat(&requests[id], |_| ());
                met[id / questions].push((id, turn, seat.place()));
                events.insert((now + turn_ms + luck % (2 * turn_ms), id), (turn, Some(seat)));
                continue;
            };
            drop(seat);
            if turn == 0 {
                events.insert((now + 1_000 + luck % 2_000, id), (1, None));
            } else if let Some(id) = waiting.next() {
                events.insert((now, id), (0, None));
            }
        }
        let turns = |mut met: Vec<(usize, usize, usize)>| {
            met.sort_unstable();
            met.chunks(2).map(|turns| [turns[0].2, turns[1].2]).collect()
        };
        met.into_iter().map(turns).collect()
    }

    #[test]
    fn turns_and_questions_of_a_video_stay_where_its_frames_are() {
        for (in_flight, turn_ms) in [(32, 10_000), (64, 10_000), (32, 10), (8, 1_000)] {
            let met = simulate(8, in_flight, turn_ms, 300, 3);
            assert!(met.iter().flatten().all(|[first, second]| first == second), "turns");
            let most = |places: &mut dyn Iterator<Item = usize>| {
                let mut counts = [0_usize; 8];
                places.for_each(|place| counts[place] += 1);
                counts.into_iter().max().unwrap()
            };
            let together: usize =
                met.iter().map(|video| most(&mut video.iter().map(|[first, _]| *first))).sum();
            assert!(together * 100 >= 95 * 900, "{in_flight} in flight: {together} of 900 questions");
            let spread = most(&mut met.iter().flatten().map(|[first, _]| *first)) as f64 / (900.0 / 8.0);
            assert!(spread <= 1.25, "{in_flight} in flight: the fullest has {spread} of the mean");
        }
    }

    #[test]
    fn many_questions_about_one_video_take_more_places_than_one() {
        let placement = Placement::new(4);
        let requests: Vec<Request> = (0..40).map(|id| about(&id.to_string(), "v.mp4")).collect();
        let seats: Vec<Seat<'_>> = requests.iter().map(|request| placement.seat(request, |_| ())).collect();
        assert_eq!(placement.state().open, [14, 13, 13, 0], "half more than the mean at most");
        drop(seats);
        assert_eq!(placement.state().open, [0; 4]);
    }

    #[test]
    fn what_a_dead_place_would_get_is_taken_over() {
        let placement = Placement::new(3);
        let requests: Vec<Request> = (0..9).map(|id| about(&id.to_string(), &format!("{id}.mp4"))).collect();
        let places = |dead: Option<usize>| {
            let seat = |request| placement.seat(request, |place| Some(place) == dead);
            let seats: Vec<Seat<'_>> = requests.iter().map(seat).collect();
            seats.iter().map(Seat::place).collect::<Vec<_>>()
        };
        assert_eq!(places(None), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        let without = places(Some(1));
        assert_eq!(without, [0, 2, 2, 0, 0, 2, 0, 2, 2]);
        assert_eq!(places(None), without, "their frames are there now");
        let only = placement.seat(&requests[0], |_| true);
        assert_eq!(only.place(), 0, "where all are as bad, nothing moves");
    }

    #[test]
    fn a_crop_begins_a_conversation_of_its_own() {
        let placement = Placement::new(2);
        let main = placement.seat(&about("s", "v.mp4"), |_| ());
        let crop = placement.seat(&about("s", "crop.mp4"), |_| ());
        assert_ne!(main.place(), crop.place(), "it has no frames in common");
        assert_eq!(placement.seat(&about("s", "v.mp4"), |_| ()).place(), main.place());
    }
}
