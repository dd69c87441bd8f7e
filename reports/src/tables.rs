//! The tables of a report, each built once with all of its columns.

use crate::cells::Cell;
use crate::claims::Judged;
use crate::group_score::GroupScore;
use crate::paper::PaperNumbers;
use crate::rows::{calls, samples_in_full};
use crate::runs::Run;
use crate::table::{ColumnFormat, Table, TableBuilder};
use crate::tone::Tone;
use crate::{Report, cell_text, published, sections};

/// Every table of a report, in the order in which they are shown.
pub fn all(report: &Report, paper: &PaperNumbers) -> Vec<Table> {
    let mut tables = vec![
        scores(report),
        published::table(&published::lines(report, paper)),
        breakdowns(report),
        losses(report),
        tools(report),
        frames(report),
        cost(report),
        claims(&report.claims.iter().collect::<Vec<_>>()),
    ];
    tables.extend(report.cells.iter().any(|cell| cell.digest.first_token.n > 0).then(|| latency(report)));
    tables.extend(sections::ALL.iter().filter_map(|section| section.of(report)));
    tables
}

/// One row per sample and one per tool call of all runs, with the names of split and run; with the epoch where one of
/// the runs is repeated, and with the score by its own extraction where one of them is an agent's.
pub fn records<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<Table> {
    let runs: Vec<&Run> = runs.into_iter().collect();
    let is_repeated = runs.iter().any(|run| run.manifest.plan.repeat > 1);
    let has_own = runs.iter().any(|run| run.manifest.fidelity.is_some());
    let of_run = |run: &Run| {
        let samples = samples_in_full(run.manifest.plan.switches(), &run.records);
        let (split, name, profile) =
            (&run.manifest.task.title, run.manifest.display_name(), run.manifest.plan.profile());
        let named = [("split", split.as_str()), ("run", &name), ("profile", profile.as_str())];
        [samples, calls(&run.records)].map(|table| {
            let table = table.under(named);
            let table = if is_repeated { table.exported("epoch") } else { table };
            if has_own { table.exported("own_score") } else { table }
        })
    };
    let (samples, calls) = runs.into_iter().map(of_run).map(|[samples, calls]| (samples, calls)).unzip();
    [samples, calls].into_iter().filter_map(Table::stack).collect()
}

/// A table with one row per run, which begins with the names of split, run and profile.
fn of_cells<'a>(name: &'static str, title: &'static str, report: &'a Report) -> TableBuilder<'a, Cell> {
    Table::of(name, title, &report.cells)
        .text("split", "split", |cell| cell.title.clone())
        .text("run", "run", |cell| cell.run.clone())
        .text("profile", "profile", |cell| cell.profile.to_string())
}

/// Scores beside the published ones.
pub(crate) fn scores(report: &Report) -> Table {
    of_cells("scores", "Scores", report)
        .text("mode", "mode", |cell| cell.mode.clone())
        .text("model", "model", |cell| cell.model.clone())
        .text("metric", "metric", |cell| cell.summary.headline().name.clone())
        .share("score_percent", "score", Cell::score)
        .share_ends([("low_percent", "low"), ("high_percent", "high")], |cell| cell.interval)
        .count("n", "N", Cell::n)
        .count("recorded", "recorded", |cell| cell.summary.n_recorded)
        .count("expected", "expected", |cell| cell.summary.n_expected)
        .count("split_samples", "in the split", |cell| cell.split_rows)
        .count("videos", "videos", |cell| cell.videos)
        .text("paper_row", "published row", |cell| Some(cell.paper.as_ref()?.row.clone()))
        .real("published_percent", "published", |cell| Some(cell.paper.as_ref()?.published))
        .real("difference_points", "difference", |cell| Some(cell.paper.as_ref()?.difference))
        .ends([("difference_low_points", "low"), ("difference_high_points", "high")], |cell| {
            cell.paper.as_ref()?.interval
        })
        .real("margin_points", "margin", |cell| Some(cell.paper.as_ref()?.margin))
        .shown_as(ColumnFormat::Number)
        .real("p_holm", "p (Holm)", |cell| cell.paper.as_ref()?.p_holm)
        .toned("verdict", "verdict", |cell| (cell_text::verdict(cell), cell_text::tone(cell)))
        .for_views()
        .share("chance", "chance", |cell| cell.digest.chance)
        .toned("state", "", |cell| match cell.complete() {
            true => (String::new(), Tone::Plain),
            false => ("INCOMPLETE".to_owned(), Tone::Open),
        })
        .text("n_of", "N", cell_text::n)
        .text("errors", "errors", cell_text::losses)
        .text("also", "also", cell_text::further_metrics)
        .text("difference", "difference", |cell| {
            cell.paper.as_ref().map(|paper| cell_text::difference(cell, paper))
        })
        .toned("judged", "verdict", |cell| (cell_text::judged(cell), cell_text::tone(cell)))
        .toned("word", "verdict", |cell| {
            (cell_text::short_verdict(cell).0.to_owned(), cell_text::short_verdict(cell).1)
        })
        .table()
}

/// The breakdowns of the benchmarks, and after them those by what was measured.
fn breakdowns(report: &Report) -> Table {
    let of_cell =
        |cell| Cell::own_groups(cell).chain(cell.bands()).map(move |(title, group)| (cell, title, group));
    let rows: Vec<(&Cell, &str, GroupScore<'_>)> = report.cells.iter().flat_map(of_cell).collect();
    Table::of("breakdowns", "Breakdowns", &rows)
        .text("split", "split", |(cell, ..)| cell.title.clone())
        .text("run", "run", |(cell, ..)| cell.run.clone())
        .text("profile", "profile", |(cell, ..)| cell.profile.to_string())
        .text("breakdown", "breakdown", |(_, title, _)| (*title).to_owned())
        .text("group", "group", |(.., group)| group.label.to_owned())
        .count("n", "N", |(.., group)| group.n)
        .share("score_percent", "score", |(.., group)| group.value)
        .share_ends([("low_percent", "low"), ("high_percent", "high")], |(.., group)| group.interval)
        .table()
}

fn losses(report: &Report) -> Table {
    of_cells("losses", "Errors and incomplete samples", report)
        .count("missing", "missing", |cell| cell.summary.n_expected.saturating_sub(cell.summary.n_recorded))
        .count("failed", "failed", |cell| cell.summary.n_errors)
        .count("aborted", "aborted", |cell| cell.lost.aborted)
        .count("unparsed", "unparsed", |cell| cell.summary.n_unparsed)
        .count("truncated", "truncated", |cell| cell.summary.n_truncated)
        .count("frame_loss", "frame loss", |cell| cell.summary.n_frame_loss)
        .count("dropped_calls", "dropped calls", |cell| cell.summary.n_dropped_calls)
        .count("lost", "without a full answer", |cell| cell.lost.rows)
        .count("lost_allowed", "allowed", |cell| cell.lost.allowed())
        .text("errors", "error classes", |cell| {
            let classes = cell.summary.errors.iter().map(|(class, count)| format!("{class} {count}"));
            classes.collect::<Vec<_>>().join(", ")
        })
        .table()
}

fn tools(report: &Report) -> Table {
    let width = |cell: &Cell| {
        let used = || cell.digest.widths.iter().filter(|(width, _)| **width > 0);
        let samples: u32 = used().map(|(_, samples)| samples).sum();
        let sum: u64 = used().map(|(width, samples)| width * u64::from(*samples)).sum();
        (samples > 0).then(|| sum as f64 / f64::from(samples))
    };
    of_cells("tools", "Tool use", report)
        .text("mode", "mode", |cell| cell.mode.clone())
        .real("calls_per_sample", "calls per sample", |cell| cell.summary.tools.calls_per_sample)
        .share("samples_with_calls_percent", "samples with calls, %", |cell| {
            cell.summary.tools.share_with_calls
        })
        .real("parallel_width", "parallel calls per turn", width)
        .real("window_seconds", "window (s)", |cell| cell.summary.tools.mean_window_seconds)
        .count("failed_crops", "failed crops", |cell| cell.summary.tools.crop_failures)
        .count("malformed_calls", "malformed", |cell| cell.summary.tools.malformed)
        .count("forced_answers", "forced answers", |cell| cell.summary.tools.forced)
        .table()
}

/// Frames that the model saw, means per sample.
fn frames(report: &Report) -> Table {
    let overview = |cell: &Cell| cell.digest.frames.overview;
    of_cells("frames", "Frames that the model saw", report)
        .real("overview_frames", "overview frames", move |cell| overview(cell).1)
        .count("overview_fewest", "fewest", move |cell| overview(cell).0 as usize)
        .count("overview_most", "most", move |cell| overview(cell).2 as usize)
        .real("overview_spacing_seconds", "between two (s)", |cell| cell.digest.frames.spacing)
        .real("crop_frames", "crop frames", |cell| cell.digest.frames.crops)
        .real("sub_agent_frames", "frames of sub-agents", |cell| cell.digest.frames.sub_agents)
        .count("samples_without_frames", "samples without a recorded frame", |cell| {
            cell.digest.frames.without
        })
        .table()
}

fn cost(report: &Report) -> Table {
    let samples = |cell: &Cell| Some(cell.summary.n_recorded as f64).filter(|samples| *samples > 0.0);
    let thoughts = |cell: &Cell| cell.summary.reasoning_tokens.map(|tokens| tokens as usize);
    let table = of_cells("cost", "Cost", report)
        .count("prompt_tokens", "prompt tokens", |cell| cell.summary.prompt_tokens as usize)
        .count("completion_tokens", "completion tokens", |cell| cell.summary.completion_tokens as usize);
    let table = match report.cells.iter().any(|cell| thoughts(cell).is_some()) {
        true => table.count("reasoning_tokens", "reasoning tokens", thoughts),
        false => table,
    };
    let table = table
        .real("sample_seconds", "latency in all (s)", |cell| cell.summary.sample_seconds)
        .real("seconds_per_sample", "latency per sample (s)", |cell| {
            Some(cell.summary.sample_seconds / samples(cell)?)
        })
        .real("median_seconds", "median (s)", |cell| cell.digest.seconds.p50)
        .real("p90_seconds", "p90 (s)", |cell| cell.digest.seconds.p90)
        .real("p99_seconds", "p99 (s)", |cell| cell.digest.seconds.p99)
        .real("media_seconds", "decoding (s)", |cell| cell.digest.media_seconds)
        .real("wall_seconds_per_sample", "wall time per sample (s)", |cell| {
            Some(cell.wall_seconds? / samples(cell)?)
        })
        .real("wall_hours", "hours from start to end", |cell| Some(cell.wall_seconds? / 3600.0))
        .real("gpu_hours", "GPU hours", Cell::gpu_hours);
    if report.cells.iter().all(|cell| cell.price.is_none()) {
        return table.table();
    }
    let tokens = |cell: &Cell| cell.price.as_ref()?.tokens;
    table
        .text("currency", "currency", |cell| Some(cell.price.as_ref()?.currency.clone()))
        .real("token_price", "price of the tokens", tokens)
        .real("token_price_per_1000_samples", "per 1,000 samples", |cell| {
            Some(1000.0 * tokens(cell)? / samples(cell)?)
        })
        .real("gpu_price", "price of the GPUs", |cell| cell.price.as_ref()?.gpus)
        .table()
}

/// Times of single model calls, where first tokens were seen.
fn latency(report: &Report) -> Table {
    let calls = |cell: &Cell| Some(cell.digest.first_token).filter(|times| times.n > 0);
    let tokens = |cell: &Cell| Some(cell.digest.token).filter(|times| times.n > 0);
    let table = of_cells("latency", "Time to first token and per token", report)
        .count("model_calls", "model calls", |cell| cell.digest.first_token.n)
        .real("first_token_mean_seconds", "first token, mean (s)", move |cell| Some(calls(cell)?.mean))
        .real("first_token_median_seconds", "median (s)", move |cell| Some(calls(cell)?.p50))
        .real("first_token_p90_seconds", "p90 (s)", move |cell| Some(calls(cell)?.p90))
        .real("first_token_p99_seconds", "p99 (s)", move |cell| Some(calls(cell)?.p99))
        .real("prompt_tokens_per_second", "prompt tokens per second, median", |cell| {
            Some(cell.digest.prompt_rate).filter(|rates| rates.n > 0).map(|rates| rates.p50)
        })
        .real("token_mean_ms", "per token, mean (ms)", move |cell| Some(1e3 * tokens(cell)?.mean))
        .real("token_median_ms", "median (ms)", move |cell| Some(1e3 * tokens(cell)?.p50))
        .real("token_p90_ms", "p90 (ms)", move |cell| Some(1e3 * tokens(cell)?.p90))
        .real("token_p99_ms", "p99 (ms)", move |cell| Some(1e3 * tokens(cell)?.p99))
        .real("tokens_per_second", "generated tokens per second", |cell| {
            Some(cell.summary.completion_tokens as f64 / cell.wall_seconds.filter(|seconds| *seconds > 0.0)?)
        });
    let has = |of: fn(&Cell) -> bool| report.cells.iter().any(of);
    let table = match has(|cell| cell.shares.is_some()) {
        true => table
            .real("bandwidth_share", "of the GPU's bandwidth per token", |cell| cell.shares?.bandwidth)
            .real("matrix_share", "of its matrix rate until the first token", |cell| {
                cell.shares?.matrix_rate
            }),
        false => table,
    };
    match has(|cell| cell.memory.is_some()) {
        true => table
            .real("memory_planned_gib", "memory, planned (GiB)", |cell| Some(gib(cell.memory?.planned)))
            .real("memory_peak_gib", "memory at its peak (GiB)", |cell| Some(gib(cell.memory?.peak?)))
            .table(),
        false => table.table(),
    }
}

pub(crate) fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

pub(crate) fn claims(claims: &[&Judged]) -> Table {
    Table::of("claims", "Claims", claims)
        .text("claim", "claim", |claim| claim.title.clone())
        .real("published", "published", |claim| claim.published)
        .text("unit", "unit", |claim| claim.unit.as_str().to_owned())
        .real("margin", "margin", |claim| claim.margin)
        .real("measured", "measured", |claim| claim.measured)
        .ends([("low", "low"), ("high", "high")], |claim| claim.interval)
        .real("p_holm", "p (Holm)", |claim| claim.p_holm)
        .toned("verdict", "verdict", |claim| (claim.verdict.to_string(), Tone::of(&claim.verdict)))
        .text("source", "source", |claim| claim.source.clone())
        .text("confidence", "confidence", |claim| claim.confidence.clone())
        .table()
}
