//! Common prefix of two prompts: equal token ids and equal media.

use crate::prompt::Prompt;

/// Tokens of a cache, and the media among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct History {
    /// Token ids.
    pub ids: Vec<u32>,
    /// First token and content of each medium.
    pub media: Vec<(usize, u64)>,
}

impl History {
    /// The history of a prompt.
    pub(super) fn of(prompt: &Prompt) -> Self {
        let media = prompt.media.iter().filter_map(|medium| Some((medium.runs.first()?.0, medium.key)));
        Self { ids: prompt.ids.clone(), media: media.collect() }
    }

    /// Tokens from the start that both hold with the same content; at most `limit`.
    pub(super) fn common(&self, other: &Self, limit: usize) -> usize {
        let same = self.ids.iter().zip(&other.ids).take_while(|(a, b)| a == b).count().min(limit);
        // Placeholder ids are equal for different media.
        let differs = self.media.iter().zip(&other.media).find(|(a, b)| a != b);
        let first = differs.map_or(same, |(a, b)| a.0.min(b.0));
        same.min(first)
    }

    /// Whether its first `length` tokens, and the media among them, are all that `other` holds.
    pub(super) fn begins_as(&self, length: usize, other: &Self) -> bool {
        let media = self.media.iter().filter(|(start, _)| *start < length);
        self.ids[..length] == other.ids && media.eq(&other.media)
    }

    /// Cuts the history to `length` tokens.
    pub(super) fn truncate(&mut self, length: usize) {
        self.ids.truncate(length);
        self.media.retain(|(start, _)| *start < length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(ids: &[u32], media: &[(usize, u64)]) -> History {
        History { ids: ids.to_vec(), media: media.to_vec() }
    }

    #[test]
    fn equal_placeholders_of_different_pictures_are_not_shared() {
        let a = history(&[1, 5, 5, 2, 5, 5, 3], &[(1, 10), (4, 20)]);
        assert_eq!(a.common(&a, 6), 6);
        assert_eq!(a.common(&history(&[1, 5, 5, 2, 5, 5, 3], &[(1, 10), (4, 21)]), 9), 4);
        assert_eq!(a.common(&history(&[1, 5, 5, 2, 5, 5, 3], &[(1, 11), (4, 20)]), 9), 1);
        assert_eq!(a.common(&history(&[1, 5, 5, 9], &[(1, 10)]), 9), 3);
        // A larger picture: the tokens agree further than the content.
        assert_eq!(a.common(&history(&[1, 5, 5, 5, 5], &[(1, 12)]), 9), 1);
        assert!(a.begins_as(4, &history(&[1, 5, 5, 2], &[(1, 10)])));
        assert!(!a.begins_as(4, &history(&[1, 5, 5, 2], &[(1, 11)])));
        assert!(!a.begins_as(3, &history(&[1, 5, 5, 2], &[(1, 10)])));
        let mut cut = a.clone();
        cut.truncate(4);
        assert_eq!(cut.media, [(1, 10)]);
    }
}
