//! All tables with a section of their own.

use crate::section::Section;
use crate::{errata, probes, protocols, repeats};

/// In the order of terminal and Markdown.
pub(crate) const ALL: [Section; 4] = [probes::SECTION, protocols::SECTION, repeats::SECTION, errata::SECTION];
