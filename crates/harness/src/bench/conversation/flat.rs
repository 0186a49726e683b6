//! Compares the time of a turn of an old agentable with that of a new one. The two alternate in stretches of turns, so
//! that other load on the machine affects both.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::{CONFIGURATIONS, ConversationInstallation, STRETCH, turn};
use crate::bench::spread::{Spread, round};
use crate::http::Connection;
use crate::installation::goal;
use houston_xtask::console::Progress;

/// Number of stretches compared, of each.
const COMPARED: usize = 20;

/// Times of a turn, from POST to the end of its stream, with a model that answers at once.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Flat {
    /// Age of the old agentable, in turns.
    pub(crate) turns: usize,
    /// Turns 1 to 25 of new agentables.
    pub(crate) new_ms: Spread,
    /// As many turns of the old agentable, after `turns` turns.
    pub(crate) old_ms: Spread,
    /// `old_ms.p50 / new_ms.p50`.
    pub(crate) ratio: f64,
}

pub(super) async fn measure(installation: &ConversationInstallation, turns: usize) -> Result<Flat> {
    let configuration = CONFIGURATIONS[CONFIGURATIONS.len() - 1];
    let user = installation.houston.user("bench").await?;
    let mut connection = installation.houston.connect().await?;
    let old = goal(&mut connection, &user, "A trip").await?;
    let mut progress = Progress::new("conversation: turns of the old agentable", turns as u64);
    let mut age = 0;
    while age < turns {
        // Sessions of four stretches: about a day's conversation.
        for _ in 0..(4 * STRETCH).min(turns - age) {
            age += 1;
            turn(&mut connection, &old, age).await?;
            progress.step();
        }
        installation.pause(configuration).await;
    }
    let mut progress = Progress::new("conversation: comparing old and new", COMPARED as u64);
    let (mut of_new, mut of_old) = (Vec::new(), Vec::new());
    for _ in 0..COMPARED {
        let new = goal(&mut connection, &user, "A trip").await?;
        of_new.extend(stretch(&mut connection, &new).await?);
        of_old.extend(stretch(&mut connection, &old).await?);
        installation.pause(configuration).await;
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
