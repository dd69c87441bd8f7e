//! The samples of the page: columns over all of them that it reads at once, and chunks of transcripts that it reads
//! when one of their samples is opened or transcripts are searched.
//!
//! Every piece is base64 of gzip of JSON in an inert script element. The answers of several runs to one question lie
//! together, so that gzip finds the question's texts again and a pair of transcripts is in one chunk.

mod index;
mod transcript;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use paravt_suite::record::Record;
use rayon::prelude::*;
use serde::Serialize;

use super::names::Names;
use super::thumbnails::Thumbnails;
use crate::contrast::Contrast;
use crate::runs::Run;

/// Samples of one chunk: small enough to unpack unnoticed, large enough to compress well.
const CHUNK: usize = 100;

/// Everything that the page's script reads, packed.
pub(super) struct Packed {
    /// Columns over all samples.
    pub index: String,
    /// Transcripts, [`CHUNK`] samples each.
    pub chunks: Vec<String>,
    pub samples: usize,
}

impl Packed {
    /// Packs the runs' records.
    ///
    /// # Errors
    /// Compression fails, which it does not in memory.
    pub(super) fn of(
        runs: &[&Run],
        (names, contrasts): (&Names, &[Contrast]),
        thumbnails: &Thumbnails,
    ) -> std::io::Result<Self> {
        let (index, records) = index::index(runs, names, contrasts);
        let transcripts = |records: &[&Record]| {
            pack(&records.iter().map(|record| transcript::transcript(record, thumbnails)).collect::<Vec<_>>())
        };
        let chunks = records.par_chunks(CHUNK).map(transcripts).collect::<std::io::Result<Vec<_>>>()?;
        Ok(Self { index: pack(&index)?, chunks, samples: records.len() })
    }
}

fn pack<T: Serialize>(value: &T) -> std::io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(9));
    serde_json::to_writer(&mut encoder, value)?;
    Ok(STANDARD.encode(encoder.finish()?))
}
