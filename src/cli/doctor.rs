//! `doctor`: can a location carry what is promised?

use std::time::Duration;

use crate::cli::Failed;
use crate::cli::args::DoctorArgs;
use crate::cli::output::{Columns, Output, Value};
use crate::cli::pipelines::here;
use crate::cli::signals::Signals;
use crate::env::Env;
use crate::maintain::doctor::{Check, DoctorOptions, Health, examine};
use crate::pipeline::location;
use crate::store::{Store, StoreOptions};

/// A store that is away this long is not examined; a pipeline would wait longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Examines, and shows a line for each check.
pub(crate) async fn doctor(args: DoctorArgs, output: &mut Output) -> Result<(), Failed> {
    let env = Env::real();
    let place = location::absolute(&args.location, &here()?)?;
    let open = || Store::open(&place, &env, StoreOptions { patience: PATIENCE, ..StoreOptions::default() });
    let options = DoctorOptions { racers: args.racers, rounds: args.rounds };
    let mut checks: Vec<Check> = Vec::new();
    let mut signals = Signals::new()?;
    let stop = async move {
        let _ = signals.next().await;
    };
    let examined = examine(&open, &options, &mut |check| checks.push(check), stop).await;
    // What was seen before a store went away is worth showing.
    let mut rows = output.rows(Columns::new(["check", "result", "detail"]));
    for check in &checks {
        rows.push(vec![Value::text(check.name), Value::text(check.health.to_string()), Value::text(&check.detail)])?;
    }
    rows.finish()?;
    examined?;
    if checks.iter().any(|c| c.health == Health::Failed) { Err(Failed::Found) } else { Ok(()) }
}
