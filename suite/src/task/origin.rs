//! Whether what lies on a machine is what was published: the rows of a file, and the subtitles beside them.

use std::collections::BTreeSet;
use std::path::Path;

use super::benchmark::ReadSample;
use super::{Benchmark, Origin, Task as _};
use crate::data::{JsonRow, Rows};
use crate::profile::Profile;
use crate::sample::{self, Sample};

impl Benchmark {
    pub(super) fn origin(&self, rows: &[JsonRow], read: &[ReadSample], profile: Profile) -> Origin {
        let spec = self.spec();
        let samples: Vec<&Sample> =
            read.iter().filter_map(|read| read.as_ref().ok()).filter_map(Option::as_ref).collect();
        let benchmark = Path::new(&self.layout().benchmark);
        let named = samples.iter().map(|sample| (*sample).clone().with_media(|path| benchmark.join(path)));
        let counted = if profile == Profile::Paper { spec.paper_rows } else { spec.expected_rows };
        let same_number = rows.len() == spec.expected_rows || samples.len() == counted;
        self.published().origin(rows, profile, &sample::sha256(named), same_number)
    }

    /// Origin of the rows under every profile: what one of them does not show, another may.
    pub(super) fn origin_under_all(&self, rows: &Rows) -> Origin {
        let all = Profile::ALL.map(|profile| self.origin(&rows.values, &self.read(rows, profile), profile));
        let other = all.iter().find(|origin| matches!(origin, Origin::Other(_)));
        let unknown = all.contains(&Origin::Unknown).then_some(&Origin::Unknown);
        other.or(unknown).unwrap_or(&Origin::Published).clone()
    }

    /// Says that another number of videos has subtitles than published, or, of other rows, that none has.
    pub(super) fn subtitles_warning(&self, samples: &[Sample], rows: usize) -> Option<String> {
        let published = self.shows_subtitles().then_some(()).and(self.layout().expected_subtitles)?;
        let (with, without): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|sample| sample.question.subtitles.is_some());
        let videos = with.iter().map(|sample| &sample.video).collect::<BTreeSet<_>>().len();
        let as_published = videos == published || rows != self.spec().expected_rows && videos > 0;
        (!as_published && !without.is_empty()).then(|| {
            let name = &self.spec().name;
            format!(
                "{name}: subtitles of {videos} videos, published {published}: {} of {} questions are asked without \
                 any, and their scores are not comparable to published ones; `paravt-bench data fetch {name}` \
                 fetches subtitles, `paravt-bench data check {name}` says where they are looked for",
                without.len(),
                samples.len()
            )
        })
    }
}
