//! Whether a turn of an old agentable takes as long as one of a new one. Both take turns, stretch by stretch, so that
//! whatever else the machine does meets both.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::{STRETCH, Stage, WAYS, turn};
use crate::bench::spread::{Spread, round};
use crate::http::Connection;
use crate::installation::goal;
use houston_xtask::console::Progress;

/// Stretches of each that are compared.
const COMPARED: usize = 20;

/// A turn, from POST to the end of its stream, with a model that answers at once.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Flat {
    /// The agentable's age, in turns.
    pub(crate) turns: usize,
    /// Turns 1 to 25 of new ones.
    pub(crate) new_ms: Spread,
    /// As many of the old one, from then on.
    pub(crate) old_ms: Spread,
    /// The old one's median over the new one's.
    pub(crate) ratio: f64,
}

pub(super) async fn measure(stage: &Stage, turns: usize) -> Result<Flat> {
    let way = WAYS[WAYS.len() - 1];
    let user = stage.houston.user("bench").await?;
    let mut connection = stage.houston.connect().await?;
    let old = goal(&mut connection, &user, "A trip").await?;
    let mut progress = Progress::new("conversation: growing old", turns as u64);
    let mut age = 0;
    while age < turns {
        // A session of four stretches: as long as one day's talk.
        for _ in 0..(4 * STRETCH).min(turns - age) {
            age += 1;
            turn(&mut connection, &old, age).await?;
            progress.step();
        }
        stage.pause(way).await;
    }
    let mut progress = Progress::new("conversation: old and new", COMPARED as u64);
    let (mut of_new, mut of_old) = (Vec::new(), Vec::new());
    for _ in 0..COMPARED {
        let new = goal(&mut connection, &user, "A trip").await?;
        of_new.extend(stretch(&mut connection, &new).await?);
        of_old.extend(stretch(&mut connection, &old).await?);
        stage.pause(way).await;
        progress.step();
    }
    let (new_ms, old_ms) = (Spread::of(of_new), Spread::of(of_old));
    Ok(Flat { turns, new_ms, old_ms, ratio: round(old_ms.p50 / new_ms.p50) })
}

async fn stretch(connection: &mut Connection, goal: &str) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(STRETCH);
    for number in 1..=STRETCH {
        let began = Instant::now();
        turn(connection, goal, number).await?;
        times.push(began.elapsed());
    }
    Ok(times)
}
