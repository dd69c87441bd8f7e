//! `paravt-bench data materialize`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use paravt_fetch::{Materialize, Materialized, Media, PathForm, materialize};
use paravt_media::Depth;
use paravt_reports::terminal::counted;
use paravt_reproduce::target;
use paravt_suite::data::DataRoot;

use crate::exit::Exit;
use crate::progress::{Meter, MeterKind};

/// Links to the published files of rows, beside those that are written, while they are.
const PUBLISHED: &str = ".published";
/// Files that are listed by name.
const SHOWN: usize = 20;

/// Flags of `data materialize`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder with the published `paravt_*.parquet`.
    #[arg(long, value_name = "DIR")]
    rows: PathBuf,
    /// Folder that the archives of the training media were unpacked into.
    #[arg(long, value_name = "DIR")]
    media: PathBuf,
    /// Folder for the rows with absolute paths, and the report `materialize.json`.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write `file://` addresses, as the release does; its own SFT loader cannot read them.
    #[arg(long)]
    uris: bool,
    /// Media that are missing or do not open are no finding.
    #[arg(long)]
    allow_missing: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let form = if args.uris { PathForm::Uri } else { PathForm::Plain };
    let meter = Meter::start(MeterKind::Count("media opened".to_owned()), 0, 0);
    let progress = |done, all| meter.reached(done as u64, all as u64);
    let work = Materialize {
        rows: &args.rows,
        media: &args.media,
        out: &args.out,
        form,
        probe: &probe,
        progress: &progress,
    };
    let done = materialize(&work)?;
    drop(meter);
    print(&done);
    Ok(if done.is_complete() || args.allow_missing { Exit::Ok } else { Exit::Finding })
}

/// Opens a video by its header; decodes a picture.
fn probe(path: &Path, media: Media) -> Result<(), String> {
    if media == Media::Image
        && let Ok(reader) = image::ImageReader::open(path).and_then(image::ImageReader::with_guessed_format)
        && reader.format().is_some()
    {
        return reader.decode().map(drop).map_err(|error| error.to_string());
    }
    // A picture of a rarer format, too.
    paravt_media::check(path, Depth::Header).map_err(|error| error.to_string())
}

/// Writes the rows that a fetch stage brought, for a recipe. Files of rows may lie in folders of their own.
pub(crate) fn provide(root: &DataRoot, out: &Path, allow_missing: bool) -> anyhow::Result<Exit> {
    let rows =
        target::training_rows(root).context("no training rows here; run the stage fetch: --from fetch")?;
    let media =
        target::training_media(root).context("no training media here; run the stage fetch: --from fetch")?;
    // One name: what a kill left is replaced.
    let flat = out.join(PUBLISHED);
    let _ = std::fs::remove_dir_all(&flat);
    std::fs::create_dir(&flat).with_context(|| format!("cannot make {}", flat.display()))?;
    let mut folders = vec![rows];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) =
                path.file_name().filter(|_| path.extension().is_some_and(|end| end == "parquet"))
            {
                let linked = std::fs::canonicalize(&path)
                    .and_then(|file| std::os::unix::fs::symlink(file, flat.join(name)));
                linked.with_context(|| format!("cannot take {}", path.display()))?;
            }
        }
    }
    let meter = Meter::start(MeterKind::Count("  materialize: media opened".to_owned()), 0, 0);
    let progress = |done, all| meter.reached(done as u64, all as u64);
    let form = PathForm::Plain;
    let work = Materialize { rows: &flat, media: &media, out, form, probe: &probe, progress: &progress };
    let done = materialize(&work)?;
    drop(meter);
    std::fs::remove_dir_all(&flat).with_context(|| format!("cannot remove {}", flat.display()))?;
    print(&done);
    if !done.is_complete() && !allow_missing {
        eprintln!("hint: fetch what is missing (--from fetch), or train without it (--allow-missing)");
    }
    Ok(if done.is_complete() || allow_missing { Exit::Ok } else { Exit::Finding })
}

fn print(done: &Materialized) {
    for file in &done.files {
        println!("{}: {}, {}", file.name, counted(file.rows, "row"), counted(file.references, "path"));
    }
    let (missing, unreadable) = (done.missing.len(), done.unreadable.len());
    println!("{} media: {missing} missing, {unreadable} do not open", done.media);
    done.missing.iter().take(SHOWN).for_each(|path| println!("  missing: {path}"));
    done.unreadable
        .iter()
        .take(SHOWN)
        .for_each(|one| println!("  does not open: {}: {}", one.path, one.reason));
    if missing > SHOWN || unreadable > SHOWN {
        println!("  materialize.json lists all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_opens_where_all_of_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let picture = image::RgbImage::from_fn(64, 48, |x, y| image::Rgb([x as u8, y as u8, (x * y) as u8]));
        picture.save(&path).unwrap();
        probe(&path, Media::Image).unwrap();
        // One of another format than its name says opens as it does in PIL.
        let other = folder.path().join("b.png");
        picture.save_with_format(&other, image::ImageFormat::Jpeg).unwrap();
        probe(&other, Media::Image).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(probe(&path, Media::Image).is_err());
        std::fs::write(&path, "no picture").unwrap();
        assert!(probe(&path, Media::Image).is_err());
    }
}
