//! Results that are made again: what they cost, and where they go.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::attempts;
use crate::error::Error;
use crate::graph::{Graph, Stage};
use crate::slot::{DISCARDED, Slot};

/// Seconds of work from which on a replacement has to be confirmed.
const AT_STAKE: f64 = 3600.0;

/// Moves the results of stages that are to be made again out of the way; `said` gets the new place of each.
///
/// # Errors
/// Hours of work without `--yes`, or a folder that cannot be moved.
pub(crate) fn replace(
    graph: &Graph,
    stages: &[&Stage],
    is_confirmed: bool,
    said: &mut dyn FnMut(&Stage, &Path),
) -> Result<(), Error> {
    let kept = stages.iter().filter_map(|&stage| Some((stage, stage.slot()?)));
    let made: Vec<(&Stage, &Slot)> = kept.filter(|(_, slot)| slot.folder().is_dir()).collect();
    let seconds = |slot: &Slot| attempts::seconds(slot.folder(), None);
    if !is_confirmed && made.iter().map(|(_, slot)| seconds(slot)).sum::<f64>() >= AT_STAKE {
        let mut list = String::new();
        for (_, slot) in &made {
            let name = slot.folder().file_name().unwrap_or_default().to_string_lossy();
            let _ = writeln!(list, "  {name:<40} {:>6.1} h", seconds(slot) / 3600.0);
        }
        return Err(Error::Confirm { list });
    }
    made.into_iter().try_for_each(|(stage, slot)| {
        let to = discard(graph, slot)?;
        said(stage, &to);
        Ok(())
    })
}

/// Moves a result below [`DISCARDED`], where the user may delete it, or take it back from.
pub(crate) fn discard(graph: &Graph, slot: &Slot) -> Result<PathBuf, Error> {
    let folder = graph.out.join(DISCARDED);
    let moved = slot.discard(&folder);
    moved.map_err(|source| Error::Discard { path: slot.folder().to_owned(), folder, source })
}
